#!/usr/bin/env bash
# A worker for a queue, with nothing but bash and the orreryd command.
#
#   worker.sh QUEUE COMMAND [ARG...]
#
# For each item COMMAND gets the item's data on its stdin. Where it ends with 0 the
# item is completed, with what it printed as the result; else it failed, and exit
# code 65 says that trying again is pointless. While COMMAND runs, the item is held
# on to; where that is refused, somebody else has it, and COMMAND is ended.
# ORRERY_SERVER, ORRERY_TOKEN, ORRERY_NAMESPACE and ORRERY_TENANT say where.
set -uo pipefail
queue=${1:?usage: worker.sh QUEUE COMMAND [ARG...]}
shift
orreryd=${ORRERYD:-orreryd}
export ORRERY_HOLDER=${ORRERY_HOLDER:-"$(hostname)-$$"}
beat=${WORKER_BEAT_SECONDS:-10} # less than half of the queue's visibility timeout
stop=
trap 'stop=1' TERM INT
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

heartbeat() { # until the work has ended, or the item is lost
  while sleep "$beat"; do
    "$orreryd" queue extend "$queue" "$1" --attempt "$2" >/dev/null || break
  done
  kill "$3" 2>/dev/null
}

while [ -z "$stop" ]; do
  # Wait in the background: so that a signal ends the waiting.
  "$orreryd" queue take "$queue" --wait 50s >"$answer" &
  wait $! || { kill $! 2>/dev/null; sleep 1; continue; }
  IFS=$'\t' read -r id attempt data <"$answer" || continue
  out=$(mktemp)
  "$@" <<<"$data" >"$out" 2>"$out.err" &
  work=$!
  heartbeat "$id" "$attempt" $work &
  beats=$!
  while wait $work; code=$?; kill -0 $work 2>/dev/null; do :; done # a signal ends wait, not the work
  kill $beats 2>/dev/null
  case $code in
    0) "$orreryd" queue complete "$queue" "$id" --attempt "$attempt" --result "@$out" ||
       "$orreryd" queue fail "$queue" "$id" --attempt "$attempt" --error "the command did not print JSON" --permanent ;;
    65) "$orreryd" queue fail "$queue" "$id" --attempt "$attempt" --error "$(tail -c 1000 "$out.err")" --permanent ;;
    *) "$orreryd" queue fail "$queue" "$id" --attempt "$attempt" --error "exit code $code: $(tail -c 1000 "$out.err")" ;;
  esac
  rm -f "$out" "$out.err"
done
