package tables

import (
	"fmt"

	"github.com/orrery-go/orrery/store"
)

func appendMeta(b, key, value []byte) []byte {
	start := len(b)
	b = append(openSeal(b), `"value":`...)
	b = append(b, value...)
	return closeSeal(b, start, sumOf(key))
}

func parseMeta(key, raw []byte) ([]byte, error) {
	f := openFields(raw, sumOf(key))
	value := f.remainder(`"value":`)
	return value, f.err
}

// Meta implements [store.ReadTx].
func (t *ReadTx) Meta(name string) (value []byte, err error) {
	if err := t.check("meta"); err != nil {
		return nil, err
	}
	defer Guard("meta", &err)
	raw, ok := t.table(inMeta).Get([]byte(name))
	if !ok {
		return nil, nil
	}
	if value, err = parseMeta([]byte(name), raw); err != nil {
		return nil, fmt.Errorf("meta %q: %w", name, err)
	}
	return value, nil
}

// SetMeta implements [store.Tx].
func (t *Tx) SetMeta(name string, value []byte) (err error) {
	if err := t.check("set meta"); err != nil {
		return err
	}
	defer Guard("set meta", &err)
	if err := store.ValidateName("meta", name); err != nil {
		return fmt.Errorf("set meta: %w", err)
	}
	key := []byte(name)
	if value == nil {
		t.table(inMeta).Delete(key)
	} else {
		t.table(inMeta).Put(key, appendMeta(nil, key, value))
	}
	return nil
}
