package page

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestATreeHasTheMembersInTheirOrderAndNumbersAsTheyWereWritten(t *testing.T) {
	got := jsonTree(json.RawMessage(`{"z":1.50,"a":[12345678901234567890,true,null,"x\"y"],"empty":{},"text":"one\ntwo\n"}`))
	require.NotNil(t, got)
	assert.Empty(t, got.Left)
	require.Len(t, got.Nodes, 4)
	assert.Equal(t, treeNode{Name: `"z":`, Value: "1.50", Open: true}, got.Nodes[0])
	list := got.Nodes[1]
	assert.True(t, list.List && list.Open)
	assert.Equal(t, "4 elements", list.Size)
	for i, want := range []string{"12345678901234567890", "true", "null", `"x\"y"`} {
		assert.Equal(t, want, list.Nodes[i].Value)
	}
	assert.Equal(t, "0 members", got.Nodes[2].Size)
	assert.Equal(t, "one\ntwo", got.Nodes[3].Lines, "a text of several lines stands as it is")
}

func TestATreeIsBoundedAndSaysWhatItLeavesOut(t *testing.T) {
	long := strings.Repeat("x", maxTreeString+5)
	deep := strings.Repeat(`{"d":`, 10*maxTreeDepth) + "1" + strings.Repeat("}", 10*maxTreeDepth)
	for name, row := range map[string]struct{ json, left string }{
		"many elements":      {"[" + strings.Repeat("7,", 10_000) + "7]", "Not shown: 9,901 more values with 19,802 bytes."},
		"a long string":      {`{"a":"` + long + `"}`, "Not shown: 5 bytes."},
		"many that are long": {"[" + strings.Repeat(`"`+long[:4000]+`",`, 99) + "1]", "Not shown: 83 more values with"},
		"deep":               {deep, "Not shown: 1 more value with"},
		"many of many":       {"[" + strings.Repeat("["+strings.Repeat("7,", 50)+"7],", 99) + "7]", "Not shown: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := jsonTree(json.RawMessage(row.json))
			require.NotNil(t, got)
			assert.Contains(t, got.Left, row.left)
			values, bytes := sizeOfTree(got.treeNode)
			assert.LessOrEqual(t, values, maxTreeValues+1)
			assert.LessOrEqual(t, bytes, maxShown+2*maxTreeString)
		})
	}
	first := jsonTree(json.RawMessage(`{"first":[` + strings.Repeat("7,", 10_000) + `7],"last":"seen"}`))
	assert.Equal(t, `"seen"`, first.Nodes[1].Value, "a long first member leaves room for the others")
	assert.Equal(t, "… 9,901 more values with 19,802 bytes", first.Nodes[0].More)
	assert.Equal(t, "10,001 elements", first.Nodes[0].Size)
}

func sizeOfTree(n treeNode) (values, bytes int) {
	values, bytes = 1, len(n.Name)+len(n.Value)+len(n.Lines)
	for _, m := range n.Nodes {
		v, b := sizeOfTree(m)
		values, bytes = values+v, bytes+b
	}
	return values, bytes
}

func TestWhatHasNoMembersAndWhatIsNoJSONIsNoTree(t *testing.T) {
	for _, raw := range []string{"", "3", `"text"`, "{}", "[]", " { } ", "{", `{"a"`, `{"a":}`} {
		assert.Nil(t, jsonTree(json.RawMessage(raw)), raw)
	}
}

func FuzzATreeTakesWhateverIsStored(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"c":"\u0000<b>"}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, raw string) {
		if got := jsonTree(json.RawMessage(raw)); got != nil {
			values, _ := sizeOfTree(got.treeNode)
			assert.LessOrEqual(t, values, maxTreeValues+1)
		}
	})
}
