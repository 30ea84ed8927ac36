package archive

import (
	"context"
	"errors"
	"math"
)

// Copied tells of a [Copy].
type Copied struct {
	At Position // of the copy, which has an ID of its own
	// Lost is the greatest number of which something may be missing; zero: nothing is. What follows is whole, if
	// what has one number was always written at once. [math.MaxUint64]: the end is missing, nothing can be
	// used, and there is no copy.
	Lost uint64
	Why  []error // what is wrong with the archive
}

// Copy copies to a folder, at which nothing is, what is whole of an archive that may be damaged and
// that nobody has open: all blocks behind the last one that cannot be read, or is missing. Nothing is synced.
// The error is about the folder that is written to.
func Copy(ctx context.Context, from string, at Position, to string, o Options) (c Copied, err error) {
	o.ReadOnly, o.NoSync = false, true
	out, err := Open(to, Position{}, o)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	c.At = Position{ID: out.at.ID, Last: at.Last}
	if at.File == 0 { // whatever stands there is nothing of it
		return c, nil
	}
	o.ReadOnly = true
	a, err := Open(from, at, o)
	if err != nil { // such as files of another archive
		return Copied{Lost: math.MaxUint64, Why: []error{err}}, nil
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.ends != nil {
		return Copied{Lost: math.MaxUint64, Why: []error{a.ends}}, nil
	}
	k := copying{ctx: ctx, parts: a.current.parts, Copied: c}
	if err := k.check(); err != nil || k.Lost == math.MaxUint64 {
		return k.Copied, err
	}
	if err := k.copy(out); err != nil {
		return c, err
	}
	k.At = out.at
	k.At.Last = at.Last
	return k.Copied, nil
}

// copying is one Copy.
type copying struct {
	ctx   context.Context
	parts []part
	cut   []bool // of which of them not all blocks can be found
	Copied
}

// lose notes that of the numbers up to one something is missing.
func (k *copying) lose(upTo uint64, why error) {
	k.Lost, k.Why = max(k.Lost, upTo), append(k.Why, why)
}

// check reads all blocks.
func (k *copying) check() error {
	k.cut = make([]bool, len(k.parts))
	for i, p := range k.parts {
		if p.behind != nil { // nobody knows how far it goes, but what this file has follows it
			k.lose(max(p.first, 1)-1, p.behind)
		}
		behind := uint64(math.MaxUint64) // what this file has is not greater
		if i+1 < len(k.parts) {
			behind = max(k.parts[i+1].first, 1) - 1
		}
		err := k.blocks(p, func(b block) error {
			if _, err := p.read(b); err != nil {
				k.lose(number(b.last), err)
			}
			return nil
		})
		if k.ctx.Err() != nil {
			return err
		} else if err != nil { // nobody knows where the next block begins
			k.cut[i] = true
			k.lose(behind, err)
		}
	}
	return nil
}

// copy copies the blocks that have any number behind what is lost, each file into one.
func (k *copying) copy(to *Archive) error {
	for i, p := range k.parts {
		if err := to.Begin(p.first, 0); err != nil {
			return err
		}
		var failed error
		err := k.blocks(p, func(b block) error {
			if number(b.last) <= k.Lost {
				return nil
			}
			var raw []byte
			if raw, failed = p.read(b); failed == nil {
				failed = to.appendRaw(raw)
			}
			return failed
		})
		if failed != nil || err != nil && (k.ctx.Err() != nil || !k.cut[i]) {
			return err
		}
		at, err := to.Flush()
		if err != nil {
			return err
		}
		to.Publish(at).Release()
		to.Roll()
	}
	return nil
}

// blocks visits the blocks of a file, until one cannot be found.
func (k *copying) blocks(p part, visit func(block) error) error {
	for at := int64(headSize); at < p.limit; {
		if k.ctx.Err() != nil {
			return context.Cause(k.ctx)
		}
		b, err := p.head(at, p.limit)
		if err == nil {
			err = visit(b)
		}
		if err != nil {
			return err
		}
		at += b.length
	}
	return nil
}

// appendRaw appends a block as it is.
func (a *Archive) appendRaw(raw []byte) error {
	w := &a.out
	if w.f == nil {
		if err := a.openOut(); err != nil {
			return err
		}
	}
	if _, err := w.f.WriteAt(raw, w.size); err != nil {
		return err
	}
	w.size += int64(len(raw))
	return nil
}
