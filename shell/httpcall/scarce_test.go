package httpcall_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
)

func TestOnlyARequestOfWhichNothingWasSentIsLeftToTheEngineToTryAgain(t *testing.T) {
	noDescriptor := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	assert.True(t, shell.IsNotStarted(&httpcall.RequestError{Unsent: true, Err: noDescriptor}))
	assert.False(t, shell.IsNotStarted(&httpcall.RequestError{Err: noDescriptor}), "an attempt or a redirect before it was sent")
	assert.False(t, shell.IsNotStarted(&httpcall.RequestError{Unsent: true, Err: refused}), "that is the server's fault")
}
