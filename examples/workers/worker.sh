#!/usr/bin/env bash
# A worker for a queue, with nothing but bash and the orreryd command.
#
#   worker.sh QUEUE COMMAND [ARG...]
#
# For each item COMMAND gets the item's data on its stdin. Where it ends with 0 the
# item is completed, with what it printed as the result; else it failed, and exit
# code 65 says that trying again is pointless. While COMMAND runs, the item is held
# on to; where that is refused, somebody else has it, and COMMAND is ended. While no
# daemon answers, COMMAND goes on, and what came of it is said once one does.
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

no_daemon=3 # the exit code for it

heartbeat() { # until the work has ended, or the item is lost
  while sleep "$beat"; do
    "$orreryd" queue extend "$queue" "$1" --attempt "$2" >/dev/null || [ $? -eq $no_daemon ] || break
  done
  kill "$3" 2>/dev/null
}

say() { # what came of the work: again and again while no daemon answers
  while "$orreryd" queue "$@"; said=$?; [ $said -eq $no_daemon ] && [ -z "$stop" ]; do sleep 1; done
  return $said
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
    0) say complete "$queue" "$id" --attempt "$attempt" --result "@$out"
       [ $? -ne 2 ] || say fail "$queue" "$id" --attempt "$attempt" --error "the command did not print JSON" --permanent ;;
    65) say fail "$queue" "$id" --attempt "$attempt" --error "$(tail -c 1000 "$out.err")" --permanent ;;
    *) say fail "$queue" "$id" --attempt "$attempt" --error "exit code $code: $(tail -c 1000 "$out.err")" ;;
  esac
  rm -f "$out" "$out.err"
done
