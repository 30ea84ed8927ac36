# The search for what the gate's fixed seeds do not show, part of .ci/run:
#
#   .ci/run soak [DURATION]     one hour, or as long as 90s, 20m, 2h say
#
# Four loops run beside each other until the time is over; what was begun by then runs
# to its end. One runs every test that draws - properties, histories against a model,
# the crash suites - with a fresh seed, in a fresh order, with more draws than the
# gate, under the race detector unless it is pure. Another one runs the fuzz targets in turn. The third one
# runs the simulations, without the race detector, of as many seeds as there is time for. The last one
# loads a PostgreSQL beside a reader that stays open, and prints how fast that was and how large the tables
# became. Test binaries are built once. Each finding is printed with its seed and the command that
# repeats it.
#
# Environment:
#   SOAK_CHECKS     draws for each property (default 500; the gate has 100)
#   ORRERY_FAULTS   steps with faults for the daemons of shell/clustertest (default 24)
#   SOAK_FUZZTIME   time for each fuzz target in its turn (default 30s)
#   ORRERY_LOAD     commits in each of the seven phases of the load (default 5000)

SOAK_CHECKS=${SOAK_CHECKS:-500}
SOAK_FUZZTIME=${SOAK_FUZZTIME:-30s}

# seconds_of turns 90s, 20m or 2h into seconds.
seconds_of() {
  [[ $1 =~ ^([1-9][0-9]*)([smh])$ ]] || { echo "\"$1\" is no duration: write 90s, 20m or 2h" >&2; return 2; }
  local -A unit=([s]=1 [m]=60 [h]=3600)
  echo $((BASH_REMATCH[1] * ${unit[${BASH_REMATCH[2]}]}))
}

# drawing_tests prints the tests of a folder that draw.
drawing_tests() { tests_that_say 'rapid\.(Check|MakeCheck)|seedtest\.Seed|storetest\.Run' "$1"; }

# race_of prints the flag that builds the tests of a package with the race detector, or without.
race_of() { if go list "$1" | grep -q "$pure"; then echo -race=false; else echo -race; fi; }

# fresh_seed prints a seed that nobody chose.
fresh_seed() { od -An -N7 -tu8 /dev/urandom | tr -d ' '; }

# finding notes what a failed run says. The log stays.
finding() {
  local log=$1 repeat=$2
  tail -n 60 "$log"
  say "FINDING, the whole log: $log"
  say "repeat: $repeat"
  printf '%s\n' "$repeat" >>"$soak_dir/findings"
}

# draw_until runs the tests that draw, package after package, until the time is over.
draw_until() {
  local end=$1 package seed order log code repeat begun tests failed
  while true; do
    while read -r package; do
      ((SECONDS < end)) || return 0
      tests=$(drawing_tests "$package" | paste -sd '|')
      seed=$(fresh_seed) order=$((RANDOM + 1)) log=$soak_dir/$(tr / _ <<<"$package").$seed.log begun=$SECONDS code=0
      (cd "$package" && ORRERY_SEED=$seed RAPID_CHECKS=$SOAK_CHECKS RAPID_NOFAILFILE=1 \
        "$soak_dir/bin/$(tr / _ <<<"$package").test" -test.run "^($tests)\$" -test.shuffle "$order" -test.timeout 60m) \
        >"$log" 2>&1 || code=$?
      printf 'tests %s %d\n' "$package" $((SECONDS - begun)) >>"$soak_dir/runs"
      if ((code == 0)); then
        printf 'ok  \t%s\t%ds\t%d tests, seed %s\n' "$package" $((SECONDS - begun)) "$(tr '|' '\n' <<<"$tests" | wc -l)" "$seed"
        rm "$log"
        continue
      fi
      failed=$(sed -n 's/^--- FAIL: \(Test[A-Za-z0-9_]*\).*/\1/p' "$log" | sort -u | paste -sd '|')
      repeat="ORRERY_SEED=$seed RAPID_CHECKS=$SOAK_CHECKS ORRERY_FAULTS=$ORRERY_FAULTS go test $(race_of "$package") -count=1 -shuffle=$order -run '^(${failed:-$tests})\$' $package"
      printf 'FAIL\t%s\t%ds\tseed %s\n' "$package" $((SECONDS - begun)) "$seed"
      finding "$log" "$repeat"
    done <"$soak_dir/drawing"
  done
}

# fuzz_until runs the fuzz targets in turn until the time is over. What a target
# finds, Go writes below the package's testdata.
fuzz_until() {
  local end=$1 package target log code begun
  while true; do
    while read -r package target; do
      ((SECONDS < end)) || return 0
      log=$soak_dir/$target.log begun=$SECONDS code=0
      fuzz "$package" "$target" "$SOAK_FUZZTIME" >"$log" 2>&1 || code=$?
      printf 'fuzz %s %d\n' "$package $target" $((SECONDS - begun)) >>"$soak_dir/runs"
      if ((code == 0)); then
        printf 'ok  \t%s\t%ds\t%s %s\n' "$package" $((SECONDS - begun)) "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
        continue
      fi
      printf 'FAIL\t%s\t%ds\t%s\n' "$package" $((SECONDS - begun)) "$target"
      mv "$log" "$log.$begun"
      finding "$log.$begun" "go test -run '^$target\$' $package"
    done <"$soak_dir/fuzzing"
  done
}

# seeds_until runs the simulations of whole systems, and of what they pass on to each other, until the time is over.
seeds_until() {
  local end=$1 package seed log code
  while true; do
    for package in "${simulating[@]}"; do
      ((SECONDS < end)) || return 0
      seed=$(fresh_seed) log=$soak_dir/seeds.$seed.log code=0
      (cd "$package" && ORRERY_SEED=$seed RAPID_CHECKS=$SOAK_CHECKS \
        "$soak_dir/bin/$(tr / _ <<<"$package").seeds" -test.run "^($seeds)\$" -test.v -test.timeout 60m) >"$log" 2>&1 || code=$?
      printf 'seeds %s %d\n' "$package" "$(sed -n 's/.* \([0-9]*\) seeds$/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')" >>"$soak_dir/seeds"
      if ((code == 0)); then
        rm "$log"
        continue
      fi
      printf 'FAIL\t%s\tseed %s\n' "$package" "$seed"
      finding "$log" "ORRERY_SEED=$seed RAPID_CHECKS=$SOAK_CHECKS go test -count=1 -run '^($seeds)\$' $package"
    done
  done
}

# load_until loads a PostgreSQL beside a reader that stays open, until the time is over.
load_until() {
  local end=$1 begun log code
  while ((SECONDS < end)); do
    log=$soak_dir/load.$SECONDS.log begun=$SECONDS code=0
    (cd ./store/postgres && "$soak_dir/bin/load" -test.run "^$loading\$" -test.v -test.timeout 60m) >"$log" 2>&1 || code=$?
    printf 'load ./store/postgres %d\n' $((SECONDS - begun)) >>"$soak_dir/runs"
    if ((code == 0)); then
      printf 'ok  \t%s\t%ds\t%d commits in each phase\n' ./store/postgres $((SECONDS - begun)) "$ORRERY_LOAD"
      sed -n 's/^ *reader_test.go:[0-9]*: /\t/p' "$log"
      rm "$log"
      continue
    fi
    printf 'FAIL\t%s\t%ds\t%s\n' ./store/postgres $((SECONDS - begun)) "$loading"
    finding "$log" "ORRERY_LOAD=$ORRERY_LOAD go test -count=1 -run '^$loading\$' ./store/postgres"
  done
}

# loading is the test that does.
loading=TestNothingIsLostBesideAReaderThatStaysOpen

# simulating are the packages whose tests run seeds, by those of these names.
simulating=(./shell/sim ./shell/fleet/forward)
seeds='TestWhateverHappensTheGuaranteesHold|TestPartitionsAreHandedOverWhileToolsRunAndTheGuaranteesHold|TestWhateverHappensToMessages.*'

soak() {
  local length end package
  length=$(seconds_of "${1:-1h}") || return
  export ORRERY_FAULTS=${ORRERY_FAULTS:-24}
  export ORRERY_LOAD=${ORRERY_LOAD:-5000}
  export ORRERY_KUBE=build # one of its suites draws, too; without a cluster it is skipped
  soak_dir=$(mktemp -d "${TMPDIR:-/tmp}/orrery-soak-XXXXXX")
  mkdir "$soak_dir/bin"
  touch "$soak_dir/findings" "$soak_dir/runs" "$soak_dir/seeds"
  packages_with '"github.com/orrery-go/orrery/effects/seedtest"' | grep -v '^./effects/seedtest$' >"$soak_dir/drawing"
  fuzz_targets >"$soak_dir/fuzzing"
  say "building the test binaries of $(wc -l <"$soak_dir/drawing") packages and $(wc -l <"$soak_dir/fuzzing") fuzz targets"
  while read -r package; do
    CGO_ENABLED=1 go test -c "$(race_of "$package")" -vet=off -o "$soak_dir/bin/$(tr / _ <<<"$package").test" "$package" || return 1
  done <"$soak_dir/drawing"
  for package in "${simulating[@]}"; do
    go test -c -vet=off -o "$soak_dir/bin/$(tr / _ <<<"$package").seeds" "$package" || return 1
  done
  go test -c -vet=off -o "$soak_dir/bin/load" ./store/postgres || return 1
  fuzz_binaries "$soak_dir/bin" || return 1

  end=$((SECONDS + length))
  say "looking for $length s, $SOAK_CHECKS draws for each property, $SOAK_FUZZTIME for each fuzz target"
  set -m # each loop in a process group of its own, which can be ended whole
  draw_until "$end" &
  fuzz_until "$end" &
  seeds_until "$end" &
  load_until "$end" &
  # shellcheck disable=SC2064 # the loops are known now
  trap "kill -- $(jobs -p | sed 's/^/-/' | tr '\n' ' ') 2>/dev/null" INT TERM
  wait
  set +m
  rm -r "$soak_dir/bin"

  printf '\n=== soak: what ran\n'
  awk '
    { what = $1; name = $2; if (what == "fuzz") name = name " " $3; n[what " " name]++; s[what " " name] += $NF }
    END { for (k in n) printf "%-60s %4d runs %6ds\n", k, n[k], s[k] }
  ' "$soak_dir/runs" | sort
  awk '{ n[$2] += $3 } END { for (p in n) printf "%-60s %9d seeds\n", p, n[p] }' "$soak_dir/seeds" | sort
  if [[ -s $soak_dir/findings ]]; then
    printf '\n=== soak: FAILED, %d findings, logs in %s\n' "$(wc -l <"$soak_dir/findings")" "$soak_dir"
    cat "$soak_dir/findings"
    return 1
  fi
  rm -r "$soak_dir"
  printf '=== soak: ok, nothing found in %d s\n' "$length"
}
