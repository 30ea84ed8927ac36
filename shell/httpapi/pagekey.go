package httpapi

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

// pageTokens seals the page tokens of lists: who holds one learns nothing of the
// position that it stands for, and cannot make one. A token is good for the bearer
// token, the path and the filters that it was given out for.
// The key is made once and kept in the store, beside the state of the machines and not
// in the journal. While the store does not take it, it is held in memory, and the store is
// asked again now and then.
type pageTokens struct {
	asking chan struct{} // holds one element while a request asks the store for the key

	mu     sync.Mutex // guards what follows, and is not held while the store is asked
	key    []byte
	aead   cipher.AEAD // of key; nil: not yet made
	before cipher.AEAD // of a key that was used until the store gave another; or nil
	kept   bool        // the store has the key
	again  time.Time   // when the store is asked again
}

// metaPageKey is the name of the key in the store.
const metaPageKey = "httpapi/page_token_key"

// pageKeyBytes is the length of the key: AES-256.
const pageKeyBytes = 32

// How long a request waits for the store to give or to take the key, and how long the
// store is left alone after it did not.
const (
	pageKeyWait  = 5 * time.Second
	pageKeyRetry = time.Minute
)

// sealer gives the cipher, with the key of the store, or with one of this process while
// the store does not answer. One request at a time asks the store: the others wait for it
// only while there is no key at all.
func (s *Server) sealer(ctx context.Context) (cipher.AEAD, error) {
	p := &s.pageTokens
	aead, settled := p.current(s.o.Clock.Steady())
	if settled {
		return aead, nil
	}
	waiting, cancel := context.WithTimeout(ctx, pageKeyWait)
	defer cancel()
	if aead == nil {
		select {
		case p.asking <- struct{}{}:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return p.take(p.candidate(), false)
		}
	} else {
		select {
		case p.asking <- struct{}{}:
		default:
			return aead, nil
		}
	}
	defer func() { <-p.asking }()
	if aead, settled = p.current(s.o.Clock.Steady()); settled { // by the one before
		return aead, nil
	}
	return s.askForKey(ctx, waiting)
}

// askForKey asks the store for the key until waiting ends, which is a part of ctx.
func (s *Server) askForKey(ctx, waiting context.Context) (cipher.AEAD, error) {
	p := &s.pageTokens
	made := p.candidate()
	key, err := s.keyOf(waiting, made)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.log.Warn("the key of page tokens cannot be kept in the store: unless a later try succeeds, page tokens end with this process",
			"error", err, "next_try", pageKeyRetry)
		p.putOff(s.o.Clock.Steady().Add(pageKeyRetry))
		return p.take(made, false)
	}
	return p.take(key, true)
}

// keyOf gives the key, which becomes made if there is none.
func (s *Server) keyOf(ctx context.Context, made []byte) ([]byte, error) {
	switch {
	case s.o.PageKey != nil:
		key, err := s.o.PageKey(ctx)
		if err == nil && len(key) != pageKeyBytes {
			err = fmt.Errorf("httpapi: Options.PageKey gives %d bytes: it must be %d", len(key), pageKeyBytes)
		}
		return key, err
	case s.locals != nil:
		return made, nil
	}
	return storedKey(ctx, s.engine.Store(), made)
}

// current gives the cipher, if there is one, and whether the store need not be asked now.
func (p *pageTokens) current(now time.Time) (aead cipher.AEAD, settled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aead, p.kept || p.aead != nil && now.Before(p.again)
}

// candidate gives the key that the store gets if it has none.
func (p *pageTokens) candidate() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key != nil {
		return p.key
	}
	return newKey()
}

func (p *pageTokens) putOff(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = until
}

// take makes key the one in use, and gives the cipher. One that the store has not taken
// replaces none.
func (p *pageTokens) take(key []byte, kept bool) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("page tokens: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("page tokens: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aead == nil || kept && !bytes.Equal(key, p.key) {
		p.key, p.before, p.aead = key, p.aead, aead
	}
	p.kept = p.kept || kept
	return p.aead, nil
}

// open gives the position that was sealed; nil if no key of this process opens it.
func (p *pageTokens) open(sealed, bound []byte) []byte {
	position, _ := p.opened(sealed, bound)
	return position
}

// opens reports whether a key of this process opens what was sealed.
func (p *pageTokens) opens(sealed, bound []byte) bool {
	_, err := p.opened(sealed, bound)
	return err == nil
}

func (p *pageTokens) opened(sealed, bound []byte) ([]byte, error) {
	p.mu.Lock()
	aead, before := p.aead, p.before
	p.mu.Unlock()
	position, err := aead.Open(nil, nil, sealed, bound)
	if err != nil && before != nil {
		position, err = before.Open(nil, nil, sealed, bound)
	}
	return position, err
}

func newKey() []byte {
	key := make([]byte, pageKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// StoredPageKey gives the key that a store keeps for [Options.PageKey], and makes one if it keeps none. It fails where the store takes nothing, and has none.
func StoredPageKey(ctx context.Context, st store.Store) ([]byte, error) {
	return storedKey(ctx, st, newKey())
}

// storedKey reads the key of the store, which becomes made if there is none.
func storedKey(ctx context.Context, st store.Store, made []byte) (key []byte, err error) {
	read := func(tx store.ReadTx) error {
		b, err := tx.Meta(metaPageKey)
		if err != nil || b == nil {
			return err
		}
		if err := json.Unmarshal(b, &key); err != nil || len(key) != pageKeyBytes {
			return errors.Join(fmt.Errorf("%w: %s holds no key of %d bytes", store.ErrCorrupt, metaPageKey, pageKeyBytes), err)
		}
		return nil
	}
	if err := st.View(ctx, read); err != nil || key != nil {
		return key, err
	}
	b, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	err = st.Update(ctx, func(tx store.Tx) error {
		if err := read(tx); err != nil || key != nil { // another process may have been quicker
			return err
		}
		return tx.SetMeta(metaPageKey, b)
	})
	if key == nil {
		key = made
	}
	return key, err
}
