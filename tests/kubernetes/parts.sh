#!/usr/bin/env bash
# The image with everything but the canary that its proof on Kubernetes needs; rclone, which serves S3, is built from Go.
set -euo pipefail
cache=${CANARY_CACHE:-$HOME/.cache/kafka-durability-canary}/kubernetes
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
test -x "$cache/bin/rclone" ||
    GOBIN=$cache/bin CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" github.com/rclone/rclone@v1.71.0
buildah build --quiet --build-arg BASE=localhost/canary-base:bookworm --file "$(dirname "$0")/parts.Dockerfile" \
    --tag localhost/canary-parts:1 "$cache/bin"
