#!/usr/bin/env bash
# Build the image with buildah, which needs no daemon: deploy/image.sh [NAME:TAG]
# BASE=IMAGE names another base. BASE=debian makes one from Debian's packages, each held against Debian's signed index
# (debootstrap): for where no registry is reachable. SSL_CERT_FILE names the authorities of a proxy that opens TLS. The list of what is in the image (SBOM, CycloneDX) is in it, at
# /usr/share/canary/sbom.json, and beside it: build/sbom.json. Needs root, or user namespaces for buildah.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-kafka-durability-canary:$(sed -n 's/^appVersion: "\(.*\)"$/\1/p' deploy/helm/kafka-durability-canary/Chart.yaml)}
mkdir -p build
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}  # neither a runtime nor rights over cgroups are needed

if [ "${BASE:-}" = debian ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$root" \
        "${DEBIAN:-http://deb.debian.org/debian}"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb
    find "$root"/usr/share/{doc,man,locale} -type f -delete
    printf 'path-exclude /usr/share/%s/*\n' doc man locale >"$root/etc/dpkg/dpkg.cfg.d/small"
    ln -sf python3 "$root/usr/bin/python"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$root" / >/dev/null
    buildah commit --quiet --rm "$container" localhost/canary-base:bookworm >/dev/null
    BASE=localhost/canary-base:bookworm
fi

buildah build --layers --format docker --quiet ${BASE:+--build-arg "BASE=$BASE"} \
    ${CANARY_MAVEN_URL:+--build-arg "CANARY_MAVEN_URL=$CANARY_MAVEN_URL"} ${SSL_CERT_FILE:+--secret "id=authorities,src=$SSL_CERT_FILE"} \
    --ignorefile deploy/Dockerfile.dockerignore --file deploy/Dockerfile --tag "$name-unlisted" .

container=$(buildah from "$name-unlisted")
folder=$(buildah mount "$container")
syft scan "dir:$folder" --source-name kafka-durability-canary --source-version "${name##*:}" --output cyclonedx-json=build/sbom.json --quiet
install -D -m 644 build/sbom.json "$folder/usr/share/canary/sbom.json"
buildah umount "$container" >/dev/null
buildah commit --quiet --rm --format docker "$container" "$name" >/dev/null
buildah inspect --type image --format '{{.FromImage}} {{.FromImageDigest}}' "$name"
