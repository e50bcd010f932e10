#!/usr/bin/env bash
# One real Kubernetes node on this machine, for a proof: no registry, no virtual machine, nothing left when it is down.
# containerd, runc and CNI plugins are Debian's; API server, controller manager, scheduler, kubelet, kube-proxy, kubectl,
# etcd (Debian's is too old) and CoreDNS are built from their Go modules (once, about forty minutes on two cores).
#
#   node.sh build            what Debian has is installed, the rest is built into $CANARY_CACHE/kubernetes
#   node.sh up               the node is ready when this returns; use it with KUBECONFIG=$(node.sh config)
#   node.sh load IMAGE…      gives it images of buildah's
#   node.sh down             ends everything of it, and removes its networks, mounts and data
set -euo pipefail

kubernetes=1.34.4 etcd=3.6.5 coredns=v1.12.4
cache=${CANARY_CACHE:-$HOME/.cache/kafka-durability-canary}/kubernetes
home=${CANARY_NODE:-/var/lib/canary-node}
pki=$home/pki run=$home/run
address=10.86.0.1 pods=10.85.0.0/16 services=10.96.0.0/16
export PATH=$cache/bin:/usr/sbin:/sbin:$PATH KUBECONFIG=$home/admin.conf

build() {
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends --quiet=2 \
        containerd runc containernetworking-plugins buildah iptables conntrack openssl >&2
    mkdir -p "$cache/bin" "$cache/src"
    cd "$cache/src"
    if ! test -x "$cache/bin/kubectl"; then
        # k8s.io/kubernetes replaces its staging modules by folders beside it: here by their published versions
        staging=v0.${kubernetes#1.}
        printf 'module node\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$kubernetes" >go.mod
        curl --fail --silent --show-error "$(go env GOPROXY | cut -d, -f1)/k8s.io/kubernetes/@v/v$kubernetes.mod" |
            sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#\t\1 => \1 $staging#p" >>go.mod
        printf ')\n' >>go.mod
        printf '//go:build tools\n\npackage tools\n\nimport (\n' >tools.go
        printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' kubelet kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl >>tools.go
        printf ')\n' >>tools.go
        go mod tidy
        for name in kubelet kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl; do
            CGO_ENABLED=0 go build -trimpath -o "$cache/bin/$name" -ldflags "-s -w
                -X k8s.io/component-base/version.gitVersion=v$kubernetes
                -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34" \
                "k8s.io/kubernetes/cmd/$name"
        done
    fi
    if ! test -x "$cache/bin/etcd"; then
        mkdir -p "$cache/src/etcd"
        cd "$cache/src/etcd"
        printf 'module node\n\ngo 1.24.0\n' >go.mod
        printf '//go:build tools\n\npackage tools\n\nimport _ "go.etcd.io/etcd/server/v3"\n' >tools.go
        go get "go.etcd.io/etcd/server/v3@v$etcd"
        go mod tidy
        CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$cache/bin/etcd" go.etcd.io/etcd/server/v3
    fi
    test -x "$cache/bin/coredns" || GOBIN=$cache/bin CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "github.com/coredns/coredns@$coredns"
}

start() {  # start NAME COMMAND…
    local name=$1
    shift
    setsid "$@" >"$home/log/$name.log" 2>&1 </dev/null &
    echo $! >"$run/$name.pid"
}

until_true() {  # until_true SECONDS WHAT COMMAND…
    local limit=$(($(date +%s) + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        test "$(date +%s)" -lt "$limit" || { echo "not in time: $what (see $home/log)" >&2; exit 1; }
        sleep 0.5
    done
}

certificate() {  # certificate NAME SUBJECT [OTHER NAMES]
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$pki/$1.key" -out "$pki/$1.csr" 2>/dev/null
    openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 30 -out "$pki/$1.crt" \
        -extfile <(echo "extendedKeyUsage=serverAuth,clientAuth"; test -z "${3:-}" || echo "subjectAltName=$3") 2>/dev/null
    {
        echo "{apiVersion: v1, kind: Config, current-context: node, contexts: [{name: node, context: {cluster: node, user: me}}],"
        echo "clusters: [{name: node, cluster: {server: \"https://$address:6443\", certificate-authority: $pki/ca.crt}}],"
        echo "users: [{name: me, user: {client-certificate: $pki/$1.crt, client-key: $pki/$1.key}}]}"
    } >"$home/$1.conf"
}

settings() {
    mkdir -p "$home/cni"
    cat >"$home/containerd.toml" <<E
version = 2
root = "$home/containerd"
state = "$run/containerd"
[grpc]
address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$home/cni"
E
    cat >"$home/cni/10-bridge.conflist" <<E
{"cniVersion": "1.0.0", "name": "canary-pods", "plugins": [
 {"type": "bridge", "bridge": "canary-pods", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$run/ipam", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
E
    cat >"$home/kubelet.yaml" <<E
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$run/containerd.sock
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
clusterDNS: [$address]
clusterDomain: cluster.local
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
E
    cat >"$home/Corefile" <<E
.:53 {
    bind $address
    errors
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $KUBECONFIG
        ttl 1
    }
}
E
}

up() {
    mkdir -p "$pki" "$run" "$home/log" "$home/etcd"
    ip link show canary-node >/dev/null 2>&1 || ip link add canary-node type bridge
    ip address replace "$address/32" dev canary-node
    ip link set canary-node up
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=node-ca \
        -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
    certificate apiserver /CN=apiserver \
        "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:$address,IP:127.0.0.1,IP:10.96.0.1"
    certificate admin /O=system:masters/CN=admin
    certificate kubelet /O=system:nodes/CN=system:node:node "DNS:node,IP:$address"
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    certificate proxy /CN=system:kube-proxy
    openssl genrsa -out "$pki/account.key" 2048 2>/dev/null
    settings

    local etcd=http://127.0.0.1:12379
    start etcd etcd --data-dir "$home/etcd" --listen-client-urls $etcd --advertise-client-urls $etcd \
        --listen-peer-urls http://127.0.0.1:12380 --unsafe-no-fsync
    start containerd containerd --config "$home/containerd.toml"
    start apiserver kube-apiserver --etcd-servers $etcd --bind-address $address --secure-port 6443 \
        --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt" \
        --kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key" \
        --service-account-key-file "$pki/account.key" --service-account-signing-key-file "$pki/account.key" \
        --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range $services \
        --kubelet-preferred-address-types InternalIP --authorization-mode Node,RBAC --allow-privileged
    until_true 120 "the API server" kubectl get --raw /readyz
    start controller-manager kube-controller-manager --kubeconfig "$home/controller-manager.conf" \
        --use-service-account-credentials --service-account-private-key-file "$pki/account.key" \
        --root-ca-file "$pki/ca.crt" --bind-address 127.0.0.1 --leader-elect=false
    start scheduler kube-scheduler --kubeconfig "$home/scheduler.conf" --bind-address 127.0.0.1 --leader-elect=false
    start kubelet kubelet --config "$home/kubelet.yaml" --kubeconfig "$home/kubelet.conf" --hostname-override node \
        --root-dir "$home/kubelet" --node-ip $address
    start proxy kube-proxy --kubeconfig "$home/proxy.conf" --hostname-override node --cluster-cidr $pods \
        --bind-address 127.0.0.1 --conntrack-max-per-core 0
    start coredns coredns -conf "$home/Corefile"
    pause
    until_true 120 "the node is ready" kubectl wait --for=condition=Ready node/node --timeout=1s
}

pause() {  # what holds a pod's namespaces
    local folder container
    folder=$(mktemp -d)
    printf 'package main\n\nimport "syscall"\n\nfunc main() { _ = syscall.Pause() }\n' >"$folder/main.go"
    (cd "$folder" && GO111MODULE=off CGO_ENABLED=0 go build -o pause main.go)
    container=$(buildah from scratch)
    buildah copy --quiet "$container" "$folder/pause" /pause >/dev/null
    buildah config --entrypoint '["/pause"]' "$container"
    buildah commit --quiet --rm "$container" localhost/pause:1 >/dev/null
    rm -rf "$folder"
    load localhost/pause:1
}

load() {
    local image folder
    folder=$(mktemp -d)
    for image in "$@"; do
        buildah push --quiet "$image" "docker-archive:$folder/image.tar:$image"
        ctr --address "$run/containerd.sock" --namespace k8s.io images import "$folder/image.tar" >/dev/null
        rm "$folder/image.tar"
    done
    rmdir "$folder"
}

down() {
    local file
    for file in kubelet proxy; do test ! -e "$run/$file.pid" || kill "$(cat "$run/$file.pid")" 2>/dev/null || true; done
    if test -S "$run/containerd.sock"; then
        for file in $(ctr --address "$run/containerd.sock" --namespace k8s.io tasks ls -q 2>/dev/null); do
            ctr --address "$run/containerd.sock" --namespace k8s.io tasks kill --signal 9 "$file" 2>/dev/null || true
        done
    fi
    for file in "$run"/*.pid; do
        test -e "$file" || continue
        kill "$(cat "$file")" 2>/dev/null || true
        timeout 20 tail --pid "$(cat "$file")" -f /dev/null || kill -9 "$(cat "$file")" 2>/dev/null || true
    done
    pkill -f "containerd-shim-runc-v2 .*-address $run/containerd.sock" || true
    sed -n "s#^[^ ]* \($home/[^ ]*\) .*#\1#p" /proc/mounts | sort -r | while read -r file; do umount -l "$file" || true; done
    for file in /run/netns/cni-*; do test ! -e "$file" || ip netns delete "${file##*/}" 2>/dev/null || true; done
    for file in canary-pods canary-node; do ip link delete "$file" 2>/dev/null || true; done
    for file in filter nat mangle; do
        iptables-save -t "$file" | grep -v -e KUBE- -e CNI- -e canary-pods | iptables-restore --table "$file" || true
    done
    rm -rf "$home"
}

config() { echo "$KUBECONFIG"; }

"$@"
