package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// gone is what a replay lacks: something of the batches up to one; [math.MaxUint64]: of all of them.
type gone struct {
	upTo uint64
	why  string
}

// loseHistory notes that a replay cannot explain what is there from a batch up to that one on.
func (s *salvager) loseHistory(upTo uint64, format string, args ...any) {
	if upTo > s.gone.upTo {
		s.gone = gone{upTo, fmt.Sprintf(format, args...)}
	}
}

// readPast copies the journal, if any of it may be of use.
func (s *salvager) readPast(from string) error {
	folder := journalFolder(from)
	if s.state == nil && kv.NoPast(folder, nil) != nil {
		s.loseHistory(math.MaxUint64, "the file does not say what counts of %s", folder)
	}
	if s.gone.upTo == math.MaxUint64 {
		return nil
	}
	found, err := kv.SalvagePast(s.ctx, folder, s.journal, s.state, kv.Options{Unseal: tables.ParseJSON})
	if err != nil {
		return err
	}
	for _, why := range found.Why {
		s.lose("the journal: %v", why)
	}
	if len(found.Why) > 0 {
		s.loseHistory(found.Lost, "%v", found.Why[0])
	}
	s.past = found.State
	return nil
}

// historyUpTo gives the last batch that needs what is in a span of a table: it is found again by its number in
// the journal, and what else a replay needs is needed for all of it.
func historyUpTo(l *span) uint64 {
	if slices.Contains(pastTables, l.table) && len(l.to) >= 8 {
		return binary.BigEndian.Uint64(l.to)
	}
	return math.MaxUint64
}

// hasHistory reports whether a replay needs what is in a table.
func hasHistory(table string) bool {
	return table == tables.NameEpochs || slices.Contains(pastTables, table) ||
		strings.HasPrefix(table, tables.BasePrefix) || strings.HasPrefix(table, tables.RecordsPrefix)
}

// unseenBatches is how many batches may have come after the last one that is known of: those that
// changed no record, of a journal that cannot be read.
const unseenBatches = 1 << 20

// mendHistory leaves the epochs of which nothing is lost, or begins the journal anew if there is none.
// One thing may be missing of the first epoch if a whole file was lost before it: the state of a record that was set aside between
// two epochs, before a batch came. A replay tells that the record differs.
func (s *salvager) mendHistory() error {
	epochs, err := s.epochs()
	if err != nil {
		return err
	}
	lost := s.wholeFrom(epochs)
	if len(epochs) == 0 {
		s.loseHistory(math.MaxUint64, "there is no epoch")
	}
	if lost == len(epochs) {
		return s.beginAnew(epochs)
	}
	if s.past != nil {
		table, key := kv.StateKey()
		if _, err := s.out.bucket([]byte(table)); err != nil {
			return err
		}
		if err := putSealed(s.bucketOf(table), key, s.past); err != nil {
			return err
		}
	}
	if lost > 0 {
		s.since = epochs[lost].First
	}
	return s.dropEpochs(epochs[:lost], epochs[lost])
}

// wholeFrom gives the first of the epochs of which nothing is lost, or how many there are.
func (s *salvager) wholeFrom(epochs []store.Epoch) (i int) {
	for i < len(epochs) && epochs[i].First <= s.gone.upTo {
		i++
	}
	return i
}

// epochs gives those that were found, in their order.
func (s *salvager) epochs() (found []store.Epoch, err error) {
	err = s.each(tables.NameEpochs, func(k, v []byte) error {
		var e tables.EpochValue
		if err := tables.ParseJSON(k, v, &e); err != nil {
			return err
		}
		found = append(found, store.Epoch{Number: binary.BigEndian.Uint64(k), First: e.First, Started: e.Started})
		return nil
	})
	return found, err
}

// dropEpochs removes what the file has of epochs of which something is lost.
func (s *salvager) dropEpochs(lost []store.Epoch, first store.Epoch) error {
	if len(lost) == 0 {
		return nil
	}
	for _, e := range lost {
		key := tables.SeqKey(e.Number)
		if err := s.delete(tables.NameEpochs, key[:]); err != nil {
			return err
		}
	}
	end := tables.SeqKey(first.First)
	for _, name := range pastTables {
		err := s.each(name, func(k, _ []byte) error {
			if bytes.Compare(k, end[:]) >= 0 {
				return errEnough
			}
			return s.delete(name, k)
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	for _, name := range s.named(tables.BasePrefix) {
		if n, err := strconv.ParseUint(strings.TrimPrefix(name, tables.BasePrefix), 10, 64); err == nil && n < first.Number {
			if err := s.drop(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (s *salvager) delete(table string, k []byte) error {
	return s.change(table, len(k), func(b *bbolt.Bucket) error { return b.Delete(k) })
}

// beginAnew leaves one epoch, which has no batch yet.
func (s *salvager) beginAnew(epochs []store.Epoch) error {
	last, first := uint64(0), uint64(1)
	if n := len(epochs); n > 0 {
		last, first = epochs[n-1].Number, epochs[n-1].First
	}
	if k, _ := s.bucketOf(tables.NameJournal).Cursor().Last(); k != nil {
		first = max(first, binary.BigEndian.Uint64(k)+1)
	}
	for _, kind := range s.named(tables.RecordsPrefix) {
		err := s.each(kind, func(k, v []byte) error {
			r, err := tables.RecordAt(effects.Kind(strings.TrimPrefix(kind, tables.RecordsPrefix)), k, v, new(tables.Texts))
			first = max(first, r.Seq+1)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := os.RemoveAll(s.journal); err != nil {
		return err
	}
	anew := append([]string{tables.NameEpochs}, pastTables...)
	for _, name := range append(s.named(tables.BasePrefix), anew...) {
		if err := s.drop(name); err != nil {
			return err
		}
	}
	for _, name := range anew {
		if _, err := s.out.bucket([]byte(name)); err != nil {
			return err
		}
	}
	s.anew = first + unseenBatches
	key := tables.SeqKey(last + 1)
	return putSealed(s.bucketOf(tables.NameEpochs), key[:], tables.EpochValue{First: s.anew, Started: tables.ClampTime(s.o.Now)})
}
