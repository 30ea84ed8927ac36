package tables

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

// TokenValue is the claim token that was given last.
type TokenValue struct {
	Token uint64 `json:"token"`
}

// TokenKey is the key of the last claim token in the table [NameSystem].
var TokenKey = []byte("token")

func (t *ReadTx) claim(name string) (c store.Claim, ok bool, err error) {
	raw, ok := t.table(inClaims).Get([]byte(name))
	if !ok {
		return c, false, nil
	}
	c, err = ParseClaim([]byte(name), raw)
	return c, err == nil, err
}

// claim of a writer is parsed once: each batch checks the same one.
func (t *Tx) claim(name string) (c store.Claim, ok bool, err error) {
	raw, ok := t.table(inClaims).Get([]byte(name))
	if !ok {
		return c, false, nil
	}
	l := t.learned
	if l.claim.Name == name && bytes.Equal(l.rawClaim, raw) {
		return l.claim, true, nil
	}
	if c, err = ParseClaim([]byte(name), raw); err != nil {
		return c, false, err
	}
	l.claim, l.rawClaim = c, append(l.rawClaim[:0], raw...)
	return c, true, nil
}

// ParseClaim reads the stored form of a claim.
func ParseClaim(name, raw []byte) (store.Claim, error) {
	var v claimValue
	if err := ParseJSON(name, raw, &v); err != nil {
		return store.Claim{}, fmt.Errorf("claim %q: %w", name, err)
	}
	return store.Claim{Name: string(name), Holder: v.Holder, Token: v.Token, Session: v.Session, Renewed: v.Renewed, Until: v.Until}, nil
}

// Claim implements [store.ReadTx].
func (t *ReadTx) Claim(name string) (c store.Claim, err error) {
	if err := t.check("claim"); err != nil {
		return c, err
	}
	defer Guard("claim", &err)
	c, ok, err := t.claim(name)
	if err == nil && !ok {
		err = fmt.Errorf("claim %q: %w", name, store.ErrNotFound)
	}
	return c, err
}

// Claims implements [store.ReadTx].
func (t *ReadTx) Claims(prefix string) (found []store.Claim, err error) {
	if err := t.check("claims"); err != nil {
		return nil, err
	}
	err = t.scan("claims", t.table(inClaims), []byte(prefix), func(k, v []byte) (bool, error) {
		if !bytes.HasPrefix(k, []byte(prefix)) {
			return false, nil
		}
		c, err := ParseClaim(k, v)
		found = append(found, c)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Acquire implements [store.Tx].
func (t *Tx) Acquire(name, holder string, ttl time.Duration, now effects.Time) (c store.Claim, err error) {
	if err := t.check("acquire"); err != nil {
		return c, err
	}
	defer Guard("acquire", &err)
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
	if !mine || c.Session != t.session {
		token, err := t.nextToken()
		if err != nil {
			return store.Claim{}, fmt.Errorf("acquire claim %q: %w", name, err)
		}
		c = store.Claim{Name: name, Holder: holder, Token: token, Session: t.session}
	}
	c.Renewed, c.Until = ClampTime(now), now.Add(ttl)
	err = t.putJSON("acquire", inClaims, []byte(name), claimValue{c.Holder, c.Token, c.Session, c.Renewed, c.Until})
	return c, err
}

func (t *Tx) nextToken() (uint64, error) {
	token, err := t.token()
	if err != nil {
		return 0, err
	}
	return token + 1, t.putJSON("token", inSystem, TokenKey, TokenValue{token + 1})
}

// token gives the claim token that was given last.
func (t *ReadTx) token() (uint64, error) {
	var v TokenValue
	if raw, ok := t.table(inSystem).Get(TokenKey); ok {
		if err := ParseJSON(TokenKey, raw, &v); err != nil {
			return 0, fmt.Errorf("token: %w", err)
		}
	}
	return v.Token, nil
}

// CheckClaim implements [store.Tx].
func (t *Tx) CheckClaim(name string, token uint64) error {
	return t.holds("check claim", name, token)
}

func (t *Tx) holds(op, name string, token uint64) (err error) {
	if err := t.check(op); err != nil {
		return err
	}
	defer Guard(op, &err)
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

// Release implements [store.Tx].
func (t *Tx) Release(name string, token uint64) (err error) {
	defer Guard("release", &err)
	if err := t.holds("release", name, token); err != nil {
		return err
	}
	t.table(inClaims).Delete([]byte(name))
	return nil
}

// Fence implements [store.Tx].
func (t *Tx) Fence(name string) (err error) {
	if err := t.check("fence"); err != nil {
		return err
	}
	defer Guard("fence", &err)
	if !t.table(inClaims).remove([]byte(name)) {
		err = fmt.Errorf("fence %q: %w", name, store.ErrNotFound)
	}
	return err
}
