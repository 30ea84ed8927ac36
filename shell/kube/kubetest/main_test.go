package kubetest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

func TestMain(m *testing.M) {
	if s := os.Getenv(daemonEnv); s != "" {
		if err := daemon(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := kubetest.Main(m)
	_ = os.RemoveAll(built.folder) // "" where it was not built
	os.Exit(code)
}
