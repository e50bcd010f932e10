# Tests in lanes beside each other, for most of them wait more than they work. Sourced by the Makefile's recipes:
#   lane NAME COMMAND...   starts a lane in the background; its output goes to build/test-NAME.log
#   ended                  waits for the lanes, shows their output, and fails if anything failed
# Each lane ends with a line that says how long it took, and how many CPU-seconds it and its children used.
mkdir -p build
names=() pids=()
trap 'for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null || true; done' EXIT

timed() {
  local TIMEFORMAT="lane $1: %0R s, %0U + %0S CPU-s"
  time "${@:2}"
}

lane() {
  set -m  # a process group, so that all of it ends with the recipe
  timed "$@" >"build/test-$1.log" 2>&1 &
  set +m
  names+=("$1") pids+=("$!")
  echo "lane $1 runs beside the rest: tail -f build/test-$1.log"
}

ended() {
  local number failed=
  for number in "${!names[@]}"; do
    wait "${pids[number]}" || failed="$failed ${names[number]}"
    cat "build/test-${names[number]}.log"
  done
  test -z "$failed" || { echo "failed:$failed" >&2; return 1; }
}
