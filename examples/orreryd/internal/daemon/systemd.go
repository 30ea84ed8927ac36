package daemon

import (
	"context"
	"fmt"
	"net"
)

// sdNotify tells systemd how the daemon is (sd_notify(3)): READY=1, STOPPING=1.
// Without a socket there is nobody to tell.
func sdNotify(ctx context.Context, socket, state string) error {
	if socket == "" {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixgram", socket) // a leading @ is an abstract name, to Go as to systemd
	if err != nil {
		return fmt.Errorf("tell systemd %q: %w", state, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell systemd %q: %w", state, err)
	}
	return nil
}
