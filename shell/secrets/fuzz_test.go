package secrets_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell/secrets"
)

// Whatever the input: references are found and filled in without changing what JSON it
// is, and where there is none, nothing changes.
func FuzzReferences(f *testing.F) {
	for _, s := range []string{
		`{"a": "Bearer {{secret \"api\"}}!", "{{secret b}}": [1.5, null]}`, `"\u007b\u007bsecret a}}"`, `"{{secret"`, `["{{secretKeyRef}}{{secret 'a'}}{{secret a}}"]`,
		`"{{secret {{secret a}}"`, `{{secret a}}`, "\"\xff{{secret a}}\"", `"\\"`, `{"`, `[[[[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		defer boundtest.Within(t, len(in))()
		names, err := secrets.Names(in)
		if err != nil {
			return
		}
		var asked []string
		filled, err := secrets.Fill(in, func(name string) (string, error) {
			asked = append(asked, name)
			return `<"` + name + `">`, nil
		})
		require.NoError(t, err)
		assert.Equal(t, names, asked)
		assert.Equal(t, json.Valid(in), json.Valid(filled), "%s", filled)
		if len(names) == 0 {
			assert.Equal(t, string(in), string(filled))
			return
		}
		kept, err := secrets.Fill(in, func(name string) (string, error) { return "{{secret " + name + "}}", nil })
		require.NoError(t, err)
		again, err := secrets.Names(kept)
		require.NoError(t, err)
		assert.Equal(t, names, again)
	})
}

// Whatever the value and the result: JSON stays JSON, and the value is hidden where it is
// a text or a part of one.
func FuzzMask(f *testing.F) {
	f.Add("hush-hush-7", []byte(`{"a":"x hush-hush-7","b":[1234,null,true]}`))
	f.Add("1234", []byte(`{"a":-1234.5e12340,"1234":1234}`))
	f.Add("true", []byte(`[true,false,"tru\u0065"]`))
	f.Add(`pa"ss<wörd>/+`, []byte(`"pa\"ss\u003cw\u00f6rd\u003e\/+"`))
	f.Add("line one\nline two", []byte(`line one`))
	f.Fuzz(func(t *testing.T, value string, raw []byte) {
		defer boundtest.Within(t, len(value)+len(raw))()
		m := secrets.NewMask(map[string]string{"db": value})
		masked := m.JSON(raw)
		assert.True(t, json.Valid(masked) || !json.Valid(raw), "%s", masked)
		if secrets.Check(value) != nil || !utf8.ValidString(value) {
			return
		}
		holds, err := json.Marshal(map[string]string{"k": value})
		require.NoError(t, err)
		assert.JSONEq(t, `{"k":"[secret db]"}`, string(m.JSON(holds)))
		assert.Equal(t, "[secret db]", m.Text(value))
	})
}
