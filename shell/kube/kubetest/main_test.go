package kubetest_test

import (
	"os"
	"testing"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }
