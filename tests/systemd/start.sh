#!/usr/bin/env bash
# The units of deploy/systemd started by a real systemd, which is process 1 of its own namespaces (root; Debian: buildah,
# debootstrap): tests/systemd/start.sh IMAGE. The canary is that of an image; three brokers run beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."
image=$1 work=$(mktemp -d) root=
lab() { .venv/bin/canary lab "$1" --directory "$work/lab" "${@:2}"; }
end() {
  if [ -n "${init:-}" ]; then
    kill -s RTMIN+3 "$init" 2>/dev/null || true  # halt
    for _ in $(seq 200); do kill -0 "$init" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$init" 2>/dev/null || true
  fi
  lab down >/dev/null || true
  for container in $(buildah containers --quiet --filter name=canary-systemd); do buildah rm "$container" >/dev/null; done
  rm -rf "$work"
}
trap end EXIT

debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,python3,openjdk-17-jre-headless bookworm "$work/root" \
  "${DEBIAN:-http://deb.debian.org/debian}" >/dev/null
root=$work/root
container=$(buildah from --name canary-systemd "$image")
cp -a "$(buildah mount "$container")/opt/canary" "$root/opt/canary"
mkdir -p "$root/etc/canary"
cp deploy/systemd/*.service "$root/etc/systemd/system/"
bootstrap=$(lab up --brokers 3 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["bootstrap_servers"])')
cat >"$root/etc/canary/canary.yaml" <<YAML
clusters: [{name: prod, kafka: {bootstrap.servers: '$bootstrap'}}]
api: {port: 18080}
YAML
echo 'CANARY_STORE__URL=sqlite:////var/lib/canary/store.db' >"$root/etc/canary/environment"
chmod 600 "$root/etc/canary/environment"
ln -s /etc/systemd/system/canary-{run,serve,schedule}.service "$root/etc/systemd/system/multi-user.target.wants/"

unshare --mount --pid --fork --uts --ipc --cgroup bash -c '
  mount --bind "$0" "$0"
  mount -t proc proc "$0/proc"; mount -t sysfs -o ro sysfs "$0/sys"; mount -t tmpfs tmpfs "$0/run"
  mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$0/dev"; mkdir "$0/dev/pts" "$0/dev/shm" "$0/dev/mqueue" "$0/dev/hugepages"; ln -s pts/ptmx "$0/dev/ptmx"
  for one in null zero full random urandom tty; do touch "$0/dev/$one"; mount --bind "/dev/$one" "$0/dev/$one"; done
  mount -t devpts devpts "$0/dev/pts"
  cd "$0" && mkdir -p old && pivot_root . old && umount -l /old
  exec env -i container=other PATH=/usr/sbin:/usr/bin /sbin/init --log-target=console --show-status=no
' "$root" >"$work/console" 2>&1 &
outer=$!
for _ in $(seq 100); do init=$(pgrep --parent "$outer" || true); [ -z "$init" ] || break; sleep 0.1; done

ask() { python3 -c 'import sys, urllib.request as r; print(r.urlopen("http://127.0.0.1:18080" + sys.argv[1], timeout=5).read().decode())' "$1" 2>/dev/null; }
acked() { (ask /metrics || true) | awk '/^canary_probes_acked_total/ {sum += $2} END {print int(sum)}'; }
for _ in $(seq 60); do [ "$(acked)" -gt 100 ] && break; sleep 1; done
inside() { nsenter --target "$init" --mount --pid --uts --ipc --cgroup "$@"; }
for unit in run serve schedule; do
  echo "canary-$unit: $(inside systemctl is-active "canary-$unit"), uid $(inside awk '/^Uid/ {print $2}' "/proc/$(inside systemctl show -P MainPID "canary-$unit")/status"), exposure $(inside systemd-analyze security "canary-$unit" --no-pager | tail -1 | sed 's/.*: //')"
done
echo "$(acked) probes acknowledged"
[ "$(acked)" -gt 100 ] || { inside systemctl status --no-pager --lines 20 canary-run canary-serve >&2; cat "$work/console" >&2; exit 1; }
before=$(acked)
inside systemctl kill --signal KILL canary-run
for _ in $(seq 60); do [ "$(acked)" -gt $((before + 100)) ] && break; sleep 1; done
echo "killed (-9): started again $(inside systemctl show -P NRestarts canary-run) times, $before probes acknowledged before, $(acked) after"
began=$(date +%s)
inside systemctl stop canary-run canary-serve canary-schedule
echo "stopped after $(($(date +%s) - began)) s: $(for unit in run serve schedule; do inside systemctl show -P Result "canary-$unit"; done | tr '\n' ' ')"
