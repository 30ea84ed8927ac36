// Package seedtest fixes the seeds from which tests draw, so that a test that
// passes once passes always. Fresh seeds come from outside: `.ci/run soak` sets
// ORRERY_SEED, and prints the seed of what it finds.
//
// A package whose tests use rapid imports this one, else its properties draw
// from a seed of rapid's own choice. The flag -rapid.seed and RAPID_SEED still
// go before.
package seedtest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // it must have declared its flags
)

// Env is the environment variable with the seed.
const Env = "ORRERY_SEED"

// fixed is the seed if Env is not set.
const fixed = 1

var seed = fromEnv(os.Getenv(Env))

func init() {
	if f := flag.Lookup("rapid.seed"); f.Value.String() == "0" {
		if err := f.Value.Set(strconv.FormatUint(seed, 10)); err != nil {
			panic(err)
		}
	}
}

func fromEnv(value string) uint64 {
	if value == "" {
		return fixed
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", Env, err))
	}
	return n
}

// Seed gives the seed for a test that draws by itself, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("%s=%d", Env, seed)
	return seed
}
