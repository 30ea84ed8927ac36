package brokentest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const counter = `package count

import "fmt"

type counter struct{ n int }

func (counter) name(string, ...int) string { return "counter" }

// add adds.
func (c *counter) add(a, b int, more ...string) (n int, err error) {
	c.n += a + b
	return c.n, nil
}

func show(c *counter) { fmt.Println(c.n) }
`

func ofCounter() *switched {
	return &switched{files: map[string]*brokenFile{}, read: func(string) ([]byte, error) { return []byte(counter), nil }}
}

func TestAFunctionWithADefectIsThereOnceMoreForIt(t *testing.T) {
	s := ofCounter()
	require.NoError(t, s.add(1, []Edit{{"count/count.go", "a + b", "a - b"}, {"count/count.go", "c.n, nil", "0, nil"}}))
	require.NoError(t, s.add(2, []Edit{{"count/count.go", "a + b", "b"}}))
	require.NoError(t, s.add(3, []Edit{{"count/count.go", `"counter"`, `"other"`}}))
	require.NoError(t, s.add(4, []Edit{{"count/count.go", "fmt.Println(c.n)", "fmt.Println()"}}))
	all := s.texts()
	text := string(all["count/count.go"])
	for _, want := range []string{
		"func (self *counter) add(p0 int, p1 int, p2 ...string) (n int, err error) {\n\tswitch orreryBrokenNumber {\n\tcase 1:\n\t\treturn self.addBroken1(p0, p1, p2...)",
		"default:\n\t\treturn self.addWhole(p0, p1, p2...)",
		"func (c *counter) addWhole(a, b int, more ...string) (n int, err error) {\n\tc.n += a + b\n\treturn c.n, nil\n}",
		"func (c *counter) addBroken1(a, b int, more ...string) (n int, err error) {\n\tc.n += a - b\n\treturn 0, nil\n}",
		"func (c *counter) addBroken2(a, b int, more ...string) (n int, err error) {\n\tc.n += b\n\treturn c.n, nil\n}",
		"func (self counter) name(p0 string, p1 ...int) string {\n\tswitch orreryBrokenNumber {\n\tcase 3:\n\t\treturn self.nameBroken3(p0, p1...)",
		"func show(p0 *counter)  {\n\tswitch orreryBrokenNumber {\n\tcase 4:\n\t\tshowBroken4(p0)\n\tdefault:\n\t\tshowWhole(p0)",
	} {
		assert.Contains(t, text, want)
	}
	assert.Contains(t, string(all["count/orrery_broken.go"]), "package count\n")
	assert.Len(t, all, 2)
}

func TestAnEditThatFitsNowhereIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edits []Edit
		want  string
	}{
		"it is not there":        {[]Edit{{"count/count.go", "a * b", ""}}, "count/count.go has 0 times, not once: a * b"},
		"it is there twice":      {[]Edit{{"count/count.go", "c.n", ""}}, "count/count.go has 3 times, not once: c.n"},
		"it is in no function":   {[]Edit{{"count/count.go", "struct{ n int }", ""}}, "count/count.go: it must stand in one function: struct{ n int }"},
		"another one has it not": {[]Edit{{"count/count.go", "a + b", "a"}, {"count/count.go", "+= a + b", ""}}, "count/count.go: add: what was replaced before has made of it something else: += a + b"},
	} {
		t.Run(name, func(t *testing.T) { require.EqualError(t, ofCounter().add(1, c.edits), c.want) })
	}
}
