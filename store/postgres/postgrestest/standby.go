package postgrestest

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// Replication says what a primary waits for before it acknowledges a commit.
type Replication string

const (
	// Synchronous is for a standby that has a commit on its disk before the primary
	// acknowledges it: a failover loses nothing that was acknowledged.
	Synchronous Replication = "synchronous"
	// Asynchronous is for a standby that follows when it can: a failover may lose what was
	// acknowledged. Freeze the standby to make sure that it does.
	Asynchronous Replication = "asynchronous"
)

// standbyName is what a primary knows its standby by.
const standbyName = "standby"

// Standby makes a copy of the server that follows it by streaming replication and takes
// reads only, until [Server.Promote]. It ends with the test. A server can have one
// synchronous standby. It returns when the standby follows.
func (s *Server) Standby(t testing.TB, r Replication) *Server {
	t.Helper()
	standby, err := s.standby(r)
	if err != nil {
		t.Fatalf("make a standby of PostgreSQL: %v", err)
	}
	standby.endWith(t)
	return standby
}

func (s *Server) standby(r Replication) (_ *Server, err error) {
	standby, err := newServer(s.programs, s.options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = standby.remove() // the first error counts
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err = standby.run(ctx, "pg_basebackup", "--host="+s.dir, "--port="+s.portText(), "--username="+User, "--pgdata="+standby.data(),
		"--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"); err != nil {
		return nil, err
	}
	standby.name = standbyName
	if err = standby.launch(); err != nil {
		return nil, err
	}
	want := "async"
	if r == Synchronous {
		want = "sync"
		if err = s.Exec(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'"); err != nil {
			return nil, err
		}
		if err = s.Exec(ctx, "postgres", "SELECT pg_reload_conf()"); err != nil {
			return nil, err
		}
	}
	err = until(ctx, func(ctx context.Context) (bool, error) {
		state, err := s.Query(ctx, "postgres", "SELECT coalesce((SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming' AND application_name = '"+standbyName+"' LIMIT 1), '')")
		return state == want, err
	}, "the standby in "+standby.dir+" does not follow")
	if err != nil {
		return nil, err
	}
	return standby, nil
}

// Detach has a standby follow its primary up to here, and no further: it lacks what the primary commits from now on, as one that lags
// behind. It is for an asynchronous standby, without which the primary goes on. It returns when the standby has all of before.
func (s *Server) Detach(t testing.TB, primary *Server) {
	t.Helper()
	if err := s.detach(primary); err != nil {
		t.Fatalf("detach a standby of PostgreSQL: %v", err)
	}
}

func (s *Server) detach(primary *Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	at, err := primary.Query(ctx, "postgres", "SELECT pg_current_wal_lsn()")
	if err != nil {
		return err
	}
	err = until(ctx, func(ctx context.Context) (bool, error) {
		has, err := s.Query(ctx, "postgres", "SELECT pg_last_wal_replay_lsn() >= '"+at+"'")
		return has == "t", err
	}, "the standby in "+s.dir+" does not follow to "+at)
	if err != nil {
		return err
	}
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if err := s.Exec(ctx, "postgres", sql); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) (bool, error) {
		none, err := primary.Query(ctx, "postgres", "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)")
		return none == "t", err
	}, "the standby in "+s.dir+" still follows")
}

// Promote makes a standby a primary, that takes writes. The former primary should have
// ended: nothing keeps it from going on by itself. It returns when the server takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Exec(ctx, "postgres", "SELECT pg_promote(true, "+strconv.Itoa(int(patience/time.Second))+")"); err != nil {
		t.Fatalf("promote a standby of PostgreSQL: %v", err)
	}
	// What it waits for as a primary was copied from the former one.
	if err := s.Exec(ctx, "postgres", "ALTER SYSTEM RESET synchronous_standby_names"); err != nil {
		t.Fatalf("promote a standby of PostgreSQL: %v", err)
	}
	if err := s.Exec(ctx, "postgres", "SELECT pg_reload_conf()"); err != nil {
		t.Fatalf("promote a standby of PostgreSQL: %v", err)
	}
	if state, err := s.Query(ctx, "postgres", "SELECT pg_is_in_recovery()"); err != nil || state != "f" {
		t.Fatalf("a promoted standby of PostgreSQL takes no writes: pg_is_in_recovery is %q, %v", state, err)
	}
}
