package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
)

// Sizes tells what a compaction gained, in bytes.
type Sizes struct {
	Before int64
	After  int64
}

// compactBatch is how many bytes one transaction of a compaction copies.
const compactBatch = 16 << 20

// Compact writes a copy of the database file src, which no process may have open
// for writing, to a new file dst, without the space that deletions left. dst
// appears only when it is whole and on the disk; the error wraps [os.ErrExist]
// where it is already there. src is not changed.
func Compact(ctx context.Context, src, dst string) (Sizes, error) {
	if _, err := os.Lstat(dst); err == nil {
		return Sizes{}, fmt.Errorf("compact %s to %s: %w", src, dst, os.ErrExist)
	}
	sizes, err := compact(ctx, src, dst)
	if err != nil {
		return sizes, fmt.Errorf("compact %s to %s: %w", src, dst, err)
	}
	return sizes, nil
}

// CompactFile is [Compact] in place: the copy takes the file's place when it is
// whole, in one step. Until then the file stays as it was, also where the process
// ends. The folder needs room for the copy.
func CompactFile(ctx context.Context, path string) (Sizes, error) {
	sizes, err := compact(ctx, path, path)
	if err != nil {
		return sizes, fmt.Errorf("compact %s: %w", path, err)
	}
	return sizes, nil
}

func compact(ctx context.Context, src, dst string) (sizes Sizes, err error) {
	// Opened for writing, what is missing or empty would become a database.
	switch n, err := fileSize(src); {
	case err != nil:
		return sizes, err
	case n == 0:
		return sizes, fmt.Errorf("%w: it is empty", ErrForeign)
	}
	// Where the copy is to replace the source, its lock must be exclusive: what
	// another process wrote meanwhile would be lost.
	from, err := open(src, Options{ReadOnly: src != dst})
	if err != nil {
		return sizes, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	folder := filepath.Dir(dst)
	pattern := "." + filepath.Base(dst) + ".tmp-*"
	if src == dst { // the lock is ours alone: what stands there is of a compaction that was killed
		if err := removeAll(folder, pattern); err != nil {
			return sizes, err
		}
	}
	f, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return sizes, explain(err)
	}
	tmp := f.Name()
	defer func() {
		if rerr := os.Remove(tmp); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	if err := f.Close(); err != nil {
		return sizes, err
	}
	if err := copyCompact(ctx, from.db, tmp); err != nil {
		return sizes, err
	}
	if sizes.Before, err = fileSize(src); err != nil {
		return sizes, err
	}
	if sizes.After, err = fileSize(tmp); err != nil {
		return sizes, err
	}
	if src != dst {
		if _, err := os.Lstat(dst); err == nil {
			return sizes, os.ErrExist
		}
	}
	if err := os.Rename(tmp, dst); err != nil {
		return sizes, err
	}
	return sizes, syncFolder(folder)
}

// removeAll removes the files of a folder that match "prefix*". A name may hold
// what filepath.Glob takes for a pattern.
func removeAll(folder, pattern string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), strings.TrimSuffix(pattern, "*")) && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyCompact copies all buckets into the empty file at path.
func copyCompact(ctx context.Context, from *bbolt.DB, path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := compactInto(ctx, to, from); err != nil {
		return err
	}
	return to.Sync()
}

func compactInto(ctx context.Context, to, from *bbolt.DB) (err error) {
	defer guard("copy", &err)
	return from.View(func(src *bbolt.Tx) error {
		dst, err := to.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = dst.Rollback() }() // after a commit it does nothing
		size := 0
		err = src.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if _, err := dst.CreateBucket(name); err != nil {
				return err
			}
			return b.ForEach(func(k, v []byte) error {
				if size += len(k) + len(v); size > compactBatch {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					if err := dst.Commit(); err != nil {
						return err
					}
					if dst, err = to.Begin(true); err != nil {
						return err
					}
					size = 0
				}
				if v == nil {
					return fmt.Errorf("%w: bucket %q has a bucket %q in it", store.ErrCorrupt, name, k)
				}
				into := dst.Bucket(name)
				into.FillPercent = 1 // keys come in order
				return into.Put(k, v)
			})
		})
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return dst.Commit()
	})
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
