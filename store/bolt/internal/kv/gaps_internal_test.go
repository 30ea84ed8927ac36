package kv

import "testing"

func TestPutOutsideGapsTakesNoMemory(t *testing.T) {
	var none, some gaps
	some.note([]byte("d"), []byte("g"))
	key := []byte("a")
	for name, g := range map[string]*gaps{"without gaps": &none, "before a gap": &some} {
		if n := testing.AllocsPerRun(100, func() { g.put(key) }); n != 0 {
			t.Errorf("a put %s takes %v allocations, want none", name, n)
		}
	}
}
