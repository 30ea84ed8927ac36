package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "sets")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 { // the second start has nothing to change
		if err := run(context.Background(), "orrery", filepath.Join(dir, "sets.db")); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// create calendar office
	// create queue mail
	// create recurring cleanup
	// create recurring digest
	// digest: what came in
	// none calendar office
	// none queue mail
	// none recurring cleanup
	// none recurring digest
	// digest: what came in
}
