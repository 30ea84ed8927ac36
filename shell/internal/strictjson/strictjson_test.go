package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

type item struct {
	Count int    `json:"count"`
	Name  string `json:"name,omitempty"`
}

type common struct {
	Label string `json:"label"`
	Count string `json:"count"` // hidden by document.Count
}

type document struct {
	common
	Items  []item            `json:"items"`
	Env    map[string]string `json:"env"`
	Raw    json.RawMessage   `json:"raw"`
	Any    any               `json:"any"`
	Small  int8              `json:"small"`
	Byte   uint8             `json:"byte"`
	Big    uint64            `json:"big"`
	Ratio  float32           `json:"ratio"`
	On     bool              `json:"on"`
	Maybe  *int              `json:"maybe"`
	Data   []byte            `json:"data"`
	Pair   [2]int            `json:"pair"`
	Due    effects.Time      `json:"due"`
	ID     uuid.UUID         `json:"id"`
	Num    json.Number       `json:"num"`
	Count  int               `json:"count"`
	Quoted int               `json:"quoted,string"`
	Hidden string            `json:"-"`
	Deep   *document         `json:"deep"`
}

func TestARefusalNamesThePlaceAndTheBadValue(t *testing.T) {
	deep := strings.Repeat(`[`, 10_000) + strings.Repeat(`]`, 10_000)
	for name, row := range map[string]struct{ in, want string }{
		"string for an integer":      {`{"items":[{},{"count":1},{},{"count":"x"}]}`, `payload.items[3].count: want an integer, got string "x"`},
		"fraction for an integer":    {`{"count":1.5}`, `payload.count: want an integer, got number 1.5`},
		"exponent for an integer":    {`{"count":1e2}`, `payload.count: want an integer, got number 1e2`},
		"integer too large":          {`{"count":9223372036854775808}`, `payload.count: want an integer, got number 9223372036854775808`},
		"small integer out of range": {`{"small":128}`, `payload.small: want an integer from -128 to 127, got number 128`},
		"byte out of range":          {`{"byte":256}`, `payload.byte: want an integer from 0 to 255, got number 256`},
		"negative unsigned":          {`{"big":-1}`, `payload.big: want an integer of at least 0, got number -1`},
		"float out of range":         {`{"ratio":1e39}`, `payload.ratio: want a number that fits 32 bits, got number 1e39`},
		"number beyond an any":       {`{"any":[1e999]}`, `payload.any[0]: want JSON with numbers that fit 64 bits, got number 1e999`},
		"boolean for a string":       {`{"label":true}`, `payload.label: want a string, got true`},
		"false for an integer":       {`{"count":false}`, `payload.count: want an integer, got false`},
		"string for a boolean":       {`{"on":"yes"}`, `payload.on: want true or false, got string "yes"`},
		"null for a string":          {`{"label":null}`, `payload.label: want a string, got null`},
		"object for an array":        {`{"items":{}}`, `payload.items: want an array, got an object`},
		"array for an object":        {`{"env":[]}`, `payload.env: want an object, got an array`},
		"odd key in the path":        {`{"env":{"a b":1}}`, `payload.env["a b"]: want a string, got number 1`},
		"not base64":                 {`{"data":"?"}`, `payload.data: want a string in base64, got string "?"`},
		"array too short":            {`{"pair":[1]}`, `payload.pair: want an array of 2 elements, got 1 elements`},
		"array too long":             {`{"pair":[1,2,3]}`, `payload.pair: want an array of 2 elements, got 3 elements`},
		"bad time":                   {`{"due":"soon"}`, `payload.due: time "soon" is not RFC 3339, such as "2026-02-10T14:00:00Z"`},
		"bad id":                     {`{"id":"7"}`, `payload.id: string "7": invalid UUID length: 1`},
		"number for an id":           {`{"id":7}`, `payload.id: want a string, got number 7`},
		"string for a number":        {`{"num":"7"}`, `payload.num: want a number, got string "7"`},
		"bad quoted integer":         {`{"quoted":7}`, `payload: invalid use of ,string struct tag`},
		"unknown field":              {`{"items":[{"cuont":1}]}`, `payload.items[0].cuont: unknown field: use one of count, name`},
		"field of another case":      {`{"Items":[]}`, `payload.Items: unknown field: names are case-sensitive, use "items"`},
		"field that is kept out":     {`{"Hidden":""}`, `payload.Hidden: unknown field: use one of items,`},
		"duplicate key":              {`{"on":true,"on":false}`, `payload.on: is given twice`},
		"duplicate by escape":        {`{"env":{"a":"","\u0061":""}}`, `payload.env.a: is given twice`},
		"duplicate deep in raw":      {`{"raw":[{"a":{"b":1,"b":2}}]}`, `payload.raw[0].a.b: is given twice`},
		"too deep":                   {`{"raw":` + deep + `}`, `payload.raw` + strings.Repeat("[0]", 166)},
		"too deep at the top":        {deep, `payload: want an object, got an array`},
		"array at the top":           {`[]`, `payload: want an object, got an array`},
		"string at the top":          {`"x"`, `payload: want an object, got string "x"`},
		"null at the top":            {`null`, `payload: want an object, got null`},
		"empty":                      {``, `payload: is empty: want an object`},
		"only space":                 {" \n", `payload: is empty: want an object`},
		"trailing data":              {`{} {}`, `payload: has more after its end, from offset 3: '{'`},
		"trailing comma":             {`{"on":true,}`, `payload: is not JSON: want a field name in double quotes at offset 11, got '}'`},
		"trailing comma in an array": {`{"raw":[1,]}`, `payload.raw[1]: is not JSON: want a value at offset 10, got ']'`},
		"cut off":                    {`{"on":tr`, `payload.on: is not JSON: want a value at offset 6, got 't'`},
		"cut off in a string":        {`{"label":"abc`, `payload.label: is not JSON: want '"' to end the string at offset 13, got the end of the input`},
		"cut off after an object":    {`{"on":true`, `payload: is not JSON: want ',' or '}' after the field's value at offset 10, got the end of the input`},
		"missing colon":              {`{"on" true}`, `payload.on: is not JSON: want ':' after the field name at offset 6, got 't'`},
		"leading zero":               {`{"count":01}`, `want ',' or '}' after the field's value at offset 10, got '1'`},
		"bare minus":                 {`{"count":-}`, `payload.count: is not JSON: want a digit at offset 10, got '}'`},
		"single quotes":              {`{'on':true}`, `payload: is not JSON: want a field name in double quotes at offset 1, got '\''`},
		"unknown escape":             {`{"label":"\x"}`, `payload.label: is not JSON: want an escape sequence at offset 11, got 'x'`},
		"raw control character":      {"{\"label\":\"a\nb\"}", `payload.label: is not JSON: want an escape such as \n instead`},
		"raw control after escape":   {"{\"label\":\"\\ta\nb\"}", `payload.label: is not JSON: want an escape such as \n instead`},
		"bad hexadecimal":            {`{"label":"\u12g4"}`, `payload.label: is not JSON: want four hexadecimal digits at offset 14, got 'g'`},
		"NUL character":              {`{"label":"a\u0000"}`, `payload.label: has a NUL character (\u0000) at offset 11`},
		"NUL byte":                   {"{\"label\":\"a\x00\"}", `payload.label: is not JSON`},
		"NUL in a key":               {`{"env":{"\u0000":""}}`, `payload.env: has a NUL character`},
		"half a surrogate pair":      {`{"label":"\ud800x"}`, `payload.label: has half a surrogate pair (\ud800) at offset 10`},
		"two low surrogates":         {`{"label":"\udc00\udc00"}`, `payload.label: has half a surrogate pair (\udc00)`},
		"invalid UTF-8":              {"{\"label\":\"\xff\"}", `payload: the byte at offset 10 is not valid UTF-8`},
		"byte order mark":            {"\ufeff{}", `payload: starts with a byte order mark`},
		"long value":                 {`{"count":"` + strings.Repeat("y", 500) + `"}`, `payload.count: want an integer, got string "` + strings.Repeat("y", 64) + `…"`},
	} {
		t.Run(name, func(t *testing.T) {
			dst := document{common: common{Label: "kept"}}
			err := strictjson.DecodeAt("payload", []byte(row.in), &dst)
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.want)
			assert.Less(t, len(err.Error()), 900)
			assert.Equal(t, document{common: common{Label: "kept"}}, dst, "a refused input changes nothing")
			var typed *strictjson.Error
			assert.ErrorAs(t, err, &typed)
		})
	}
}

func TestAGoodDocumentIsDecodedWhole(t *testing.T) {
	in := `{"label":"x\n\u00e9\ud83d\ude00","items":[{"count":-3,"name":""}],"env":{"a b":"c"},"raw":{"n":1e999,"z":null},
	"any":[1,null,{"a":true}],"small":-128,"byte":255,"big":18446744073709551615,"ratio":0.5,"on":true,"maybe":null,
	"data":"AQI=","pair":[1,2],"due":"2026-02-10T14:00:00Z","id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","num":1.50,
	"count":4,"quoted":"7","deep":{"items":null,"env":null,"maybe":5,"due":null}}`
	var got, want document
	require.NoError(t, strictjson.Decode([]byte(in), &got))
	require.NoError(t, json.Unmarshal([]byte(in), &want))
	assert.Equal(t, want, got)
	assert.Equal(t, "x\né😀", got.Label)
	assert.Equal(t, 5, *got.Deep.Maybe)
}

func TestFieldsThatAreNotGivenKeepTheirDefaults(t *testing.T) {
	dst := item{Count: 30, Name: "default"}
	require.NoError(t, strictjson.Decode([]byte(`{"count":1}`), &dst))
	assert.Equal(t, item{Count: 1, Name: "default"}, dst)
}

func TestDepthIsCountedOverArraysAndObjects(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat(`[{"a":`, n/2) + `1` + strings.Repeat(`}]`, n/2))
	}
	require.NoError(t, strictjson.Check(nest(strictjson.MaxDepth)))
	assert.ErrorContains(t, strictjson.Check(nest(strictjson.MaxDepth+2)), "is nested deeper than 200 levels")
	assert.ErrorContains(t, strictjson.Check(nest(2_000_000)), "is nested deeper than 200 levels")
}

func TestManyKeysAreCheckedForDuplicatesToo(t *testing.T) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range 10_000 {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	require.NoError(t, strictjson.Check([]byte(b.String()+`"last":1}`)))
	assert.ErrorContains(t, strictjson.Check([]byte(b.String()+`"k9":1}`)), "k9: is given twice")
	assert.ErrorContains(t, strictjson.Check([]byte(b.String()+`"k9999":1}`)), "k9999: is given twice")
}

type upper string

func (u *upper) UnmarshalJSON(b []byte) error {
	var in struct {
		Value string `json:"value"`
	}
	if err := strictjson.Decode(b, &in); err != nil {
		return err
	}
	*u = upper(strings.ToUpper(in.Value))
	return nil
}

func TestATypeThatDecodesItselfStrictlyKeepsTheWholePath(t *testing.T) {
	var dst struct {
		A []upper `json:"a"`
	}
	require.NoError(t, strictjson.Decode([]byte(`{"a":[{"value":"x"}]}`), &dst))
	assert.Equal(t, []upper{"X"}, dst.A)
	assert.EqualError(t, strictjson.Decode([]byte(`{"a":[{"value":1}]}`), &dst), "a[0].value: want a string, got number 1")
}

func TestADestinationThatCannotBeWrittenIsTheCallersFault(t *testing.T) {
	for _, dst := range []any{nil, item{}, (*item)(nil)} {
		err := strictjson.Decode([]byte(`{}`), dst)
		require.ErrorContains(t, err, "dst must be a non-nil pointer")
		var typed *strictjson.Error
		assert.NotErrorAs(t, err, &typed)
	}
}

func TestWhatGoMarshalsIsDecodedToTheSameValue(t *testing.T) {
	text := rapid.StringMatching(`[^\x00]{0,12}`).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
	gen := rapid.Custom(func(t *rapid.T) document {
		return document{
			common: common{Label: text.Draw(t, "label")},
			Items: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
				return item{Count: rapid.Int().Draw(t, "count"), Name: text.Draw(t, "name")}
			}), 0, 4).Draw(t, "items"),
			Env:   rapid.MapOfN(text, text, 0, 20).Draw(t, "env"),
			Raw:   json.RawMessage(`[1]`),
			Small: rapid.Int8().Draw(t, "small"),
			Big:   rapid.Uint64().Draw(t, "big"),
			Ratio: rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32).Draw(t, "ratio"),
			Data:  rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data"),
			Num:   "1",
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		in := gen.Draw(t, "document")
		b, err := json.Marshal(in)
		require.NoError(t, err)
		var got document
		require.NoError(t, strictjson.Decode(b, &got))
		again, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	})
}

// FuzzDecode holds that the decoder accepts nothing that encoding/json refuses,
// that each of its further refusals has one of the documented reasons, and that
// it never panics.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"items":[{"count":1}]}`, `{"a":1,"a":2}`, `"\ud800"`, `{"any":1e999}`, "{\"label\":\"\xff\"}",
		`{"due":"2026-02-10T14:00:00Z","id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`, `-0`, `1E+2`, `"\u0000"`, ` null `,
	} {
		f.Add([]byte(s))
	}
	reasons := []string{"given twice", "nested deeper", "NUL character", "surrogate pair", "UTF-8"}
	f.Fuzz(func(t *testing.T, in []byte) {
		defer boundtest.Within(t, len(in))()
		var doc document
		if err := strictjson.Decode(in, &doc); err == nil {
			var plain document
			require.NoError(t, json.Unmarshal(in, &plain))
			require.Equal(t, plain, doc)
		}
		err := strictjson.Check(in)
		if !json.Valid(in) {
			require.Error(t, err)
			return
		}
		if err == nil {
			return
		}
		for _, r := range reasons {
			if strings.Contains(err.Error(), r) {
				return
			}
		}
		t.Fatalf("valid JSON refused without a documented reason: %v", err)
	})
}

func TestSpaceMayStandBetweenAnyTwoTokens(t *testing.T) {
	for _, space := range []string{" ", "\t", "\n", "\r", " \r\n\t "} {
		tokens := []string{
			"{", `"label"`, ":", `"a"`, ",", `"items"`, ":", "[", "{", `"count"`, ":", "1", "}", ",", "{", "}", "]", ",",
			`"env"`, ":", "{", "}", ",", `"raw"`, ":", "[", "null", ",", "true", "]", ",", `"pair"`, ":", "[", "1", ",", "2", "]", "}",
		}
		var spaced, dense document
		require.NoError(t, strictjson.Decode([]byte(space+strings.Join(tokens, space)+space), &spaced), "%q", space)
		require.NoError(t, strictjson.Decode([]byte(strings.Join(tokens, "")), &dense))
		assert.JSONEq(t, string(dense.Raw), string(spaced.Raw))
		spaced.Raw, dense.Raw = nil, nil
		assert.Equal(t, dense, spaced)
	}
}

func TestWhatFailsACheckIsTheZeroValue(t *testing.T) {
	no := errors.New("no such item")
	var seen item
	var asked []string
	check := func(name string, err error) func(*item) error {
		return func(i *item) error {
			asked, seen = append(asked, name), *i
			return err
		}
	}

	got, err := strictjson.Checked("item", []byte(`{"count":1}`), check("first", nil), check("second", no), check("third", nil))

	require.ErrorIs(t, err, no)
	assert.Zero(t, got)
	assert.Equal(t, item{Count: 1}, seen)
	assert.Equal(t, []string{"first", "second"}, asked)
}

func TestAListTakesNoMoreElementsThanItsTagSays(t *testing.T) {
	type body struct {
		List  []int `json:"list" most:"2"`
		Other []int `json:"other"`
	}
	for in, want := range map[string]string{
		`{"list":[1,2]}`:                      "",
		`{"list":null,"other":[1,2,3]}`:       "",
		`{"list":[1,2,3]}`:                    "list: has more than 2 elements",
		`{"list":[1,2,"x"]}`:                  "list: has more than 2 elements",
		`{"list":[1,2,{"a":` + "\x00" + `}]}`: "list: has more than 2 elements",
	} {
		var b body
		err := strictjson.Decode([]byte(in), &b)
		if want == "" {
			require.NoError(t, err, in)
		} else {
			require.EqualError(t, err, want, in)
		}
	}
}
