#!/bin/sh
# Makes a local base image where no image registry can be reached: Debian bookworm by debootstrap,
# with Python. Needs root and a Docker engine.
#
#   docker/make-base.sh [TAG]      then: docker build --build-arg BASE=TAG -f docker/Dockerfile .
#
# INCLUDE adds Debian packages, for example INCLUDE=,zookeeper,openjdk-17-jre-headless.
set -eu

tag=${1:-zkbroker-base}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
command -v debootstrap >/dev/null || {
    echo "debootstrap is missing; install it with: apt-get install debootstrap" >&2
    exit 1
}
debootstrap --variant=minbase \
    --include="ca-certificates,python3,python3-venv${INCLUDE:-}" bookworm "$root" >&2
# A proxy's certificate that this machine trusts is trusted in the image too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
tar -C "$root" -c . | docker import --change 'CMD ["/bin/sh"]' - "$tag"
