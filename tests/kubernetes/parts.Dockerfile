# Everything but the canary that its proof on Kubernetes needs: PostgreSQL, Java for the brokers, an object store.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends postgresql openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY rclone /usr/local/bin/rclone
