package gaps

import "testing"

func TestPutOutsideGapsTakesNoMemory(t *testing.T) {
	var none, some List
	some.Note([]byte("d"), []byte("g"))
	key := []byte("a")
	for name, g := range map[string]*List{"without gaps": &none, "before a gap": &some} {
		if n := testing.AllocsPerRun(100, func() { g.Put(key) }); n != 0 {
			t.Errorf("a put %s takes %v allocations, want none", name, n)
		}
	}
}
