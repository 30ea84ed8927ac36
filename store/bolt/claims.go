package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// claimValue is the stored form of a claim, under its name. A claim that was
// released or fenced is deleted: tokens come from one counter for all claims, so
// none repeats.
type claimValue struct {
	Holder  string       `json:"holder"`
	Token   uint64       `json:"token"`
	Session string       `json:"session"`
	Renewed effects.Time `json:"renewed"`
	Until   effects.Time `json:"until"`
}

// tokenValue is the claim token that was given last.
type tokenValue struct {
	Token uint64 `json:"token"`
}

var tokenKey = []byte("token")

func (t *readTx) claim(name string) (c store.Claim, ok bool, err error) {
	raw, ok := t.table(bucketClaims).Get([]byte(name))
	if !ok {
		return c, false, nil
	}
	c, err = parseClaim([]byte(name), raw)
	return c, err == nil, err
}

// claim of a writer is parsed once: each batch checks the same one.
func (t *tx) claim(name string) (c store.Claim, ok bool, err error) {
	raw, ok := t.table(bucketClaims).Get([]byte(name))
	if !ok {
		return c, false, nil
	}
	l := &t.s.learned
	if l.claim.Name == name && bytes.Equal(l.rawClaim, raw) {
		return l.claim, true, nil
	}
	if c, err = parseClaim([]byte(name), raw); err != nil {
		return c, false, err
	}
	l.claim, l.rawClaim = c, append(l.rawClaim[:0], raw...)
	return c, true, nil
}

func parseClaim(name, raw []byte) (store.Claim, error) {
	var v claimValue
	if err := parseJSON(name, raw, &v); err != nil {
		return store.Claim{}, fmt.Errorf("claim %q: %w", name, err)
	}
	return store.Claim{Name: string(name), Holder: v.Holder, Token: v.Token, Session: v.Session, Renewed: v.Renewed, Until: v.Until}, nil
}

func (t *readTx) Claim(name string) (c store.Claim, err error) {
	if err := t.check("claim"); err != nil {
		return c, err
	}
	defer guard("claim", &err)
	c, ok, err := t.claim(name)
	if err == nil && !ok {
		err = fmt.Errorf("claim %q: %w", name, store.ErrNotFound)
	}
	return c, err
}

func (t *readTx) Claims(prefix string) (found []store.Claim, err error) {
	if err := t.check("claims"); err != nil {
		return nil, err
	}
	err = t.scan("claims", t.table(bucketClaims), []byte(prefix), func(k, v []byte) (bool, error) {
		if !bytes.HasPrefix(k, []byte(prefix)) {
			return false, nil
		}
		c, err := parseClaim(k, v)
		found = append(found, c)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (t *tx) Acquire(name, holder string, ttl time.Duration, now effects.Time) (c store.Claim, err error) {
	if err := t.check("acquire"); err != nil {
		return c, err
	}
	defer guard("acquire", &err)
	if err := errors.Join(store.ValidateName("claim", name), store.ValidateName("holder", holder)); err != nil {
		return c, fmt.Errorf("acquire: %w", err)
	}
	if ttl < time.Millisecond {
		return c, fmt.Errorf("acquire claim %q: ttl is %s: want at least 1ms", name, ttl)
	}
	c, held, err := t.claim(name)
	if err != nil {
		return c, fmt.Errorf("acquire: %w", err)
	}
	mine := held && c.Holder == holder
	if held && !mine && now < c.Until {
		return store.Claim{}, fmt.Errorf("acquire claim %q for %q: %w: %q until %s", name, holder, store.ErrClaimed, c.Holder, c.Until)
	}
	if !mine || c.Session != t.s.session {
		token, err := t.nextToken()
		if err != nil {
			return store.Claim{}, fmt.Errorf("acquire claim %q: %w", name, err)
		}
		c = store.Claim{Name: name, Holder: holder, Token: token, Session: t.s.session}
	}
	c.Renewed, c.Until = clampTime(now), now.Add(ttl)
	err = t.putJSON("acquire", bucketClaims, []byte(name), claimValue{c.Holder, c.Token, c.Session, c.Renewed, c.Until})
	return c, err
}

func (t *tx) nextToken() (uint64, error) {
	token, err := t.token()
	if err != nil {
		return 0, err
	}
	return token + 1, t.putJSON("token", bucketSystem, tokenKey, tokenValue{token + 1})
}

// token gives the claim token that was given last.
func (t *readTx) token() (uint64, error) {
	var v tokenValue
	if raw, ok := t.table(bucketSystem).Get(tokenKey); ok {
		if err := parseJSON(tokenKey, raw, &v); err != nil {
			return 0, fmt.Errorf("token: %w", err)
		}
	}
	return v.Token, nil
}

func (t *tx) CheckClaim(name string, token uint64) error {
	return t.holds("check claim", name, token)
}

func (t *tx) holds(op, name string, token uint64) (err error) {
	if err := t.check(op); err != nil {
		return err
	}
	defer guard(op, &err)
	c, held, err := t.claim(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	case !held:
		return fmt.Errorf("%s %q: %w: it is free, the caller's token is %d", op, name, store.ErrFenced, token)
	case c.Token != token:
		return fmt.Errorf("%s %q: %w: token is %d, the caller's is %d", op, name, store.ErrFenced, c.Token, token)
	}
	return nil
}

func (t *tx) Release(name string, token uint64) (err error) {
	defer guard("release", &err)
	if err := t.holds("release", name, token); err != nil {
		return err
	}
	t.table(bucketClaims).Delete([]byte(name))
	return nil
}

func (t *tx) Fence(name string) (err error) {
	if err := t.check("fence"); err != nil {
		return err
	}
	defer guard("fence", &err)
	if !t.table(bucketClaims).remove([]byte(name)) {
		err = fmt.Errorf("fence %q: %w", name, store.ErrNotFound)
	}
	return err
}
