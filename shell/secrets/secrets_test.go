package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/secrets"
)

func TestReferencesInTextsAreFilledInAndAllElseStaysAsItWas(t *testing.T) {
	value := func(name string) (string, error) {
		if name == "none" {
			return "", errors.New("no such secret")
		}
		return `<` + name + `">{{secret "x"}}`, nil
	}
	for in, want := range map[string]string{
		`{"a": "Bearer {{secret \"api\"}}!"}`:         `{"a": "Bearer <api\">{{secret \"x\"}}!"}`,
		`["{{secret 'a-b.c_1'}}{{secret a}}"]`:        `["<a-b.c_1\">{{secret \"x\"}}<a\">{{secret \"x\"}}"]`,
		`"\u007b\u007bsecret a}}"`:                    `"<a\">{{secret \"x\"}}"`,
		"[\"{{secret `a`}}\", 1.50, null,  true ]":    `["<a\">{{secret \"x\"}}", 1.50, null,  true ]`,
		`{"n": 1e400, "t": "${secret} {{other}}"}`:    `{"n": 1e400, "t": "${secret} {{other}}"}`,
		`"{ {secret \"a\"}}"`:                         `"{ {secret \"a\"}}"`,
		`"{{secretKeyRef}} {{secrets}} {{secret a}}"`: `"{{secretKeyRef}} {{secrets}} <a\">{{secret \"x\"}}"`,
	} {
		got, err := secrets.Fill(json.RawMessage(in), value)
		require.NoError(t, err, in)
		assert.Equal(t, want, string(got))
	}
	for in, want := range map[string]string{
		`"{{secret}}"`:            `write {{secret "name"}}`,
		`"{{secret \"a b\"}}"`:    "is no reference to a secret",
		`"{{secret \"a\" | hex}}`: "",
		`"{{secret \"none\"}}"`:   "no such secret",
	} {
		_, err := secrets.Fill(json.RawMessage(in), value)
		if want == "" {
			assert.NoError(t, err, "it is no JSON: the tool says so")
			continue
		}
		assert.ErrorContains(t, err, want, in)
	}
}

func TestAValueIsMaskedInTheFormsInWhichItComesBack(t *testing.T) {
	const value = `pa"ss<wörd>/+`
	m := secrets.NewMask(map[string]string{"db": value, "part": "pa\"s", "pin": "123456"})
	quoted, err := json.Marshal(value)
	require.NoError(t, err)
	for _, text := range []string{
		value, string(quoted), url.QueryEscape(value), url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	} {
		assert.Equal(t, "before [secret db] after", strings.ReplaceAll(m.Text("before "+text+" after"), `"`, ""), text)
	}
	assert.JSONEq(t, `{"echo":"x[secret db]y","pin":"[secret pin]","n":7}`, string(m.JSON(json.RawMessage(`{"echo":"xpa\"ss\u003cw\u00f6rd\u003e\/+y","pin":123456,"n":7}`))))
	failed := m.Error(os.ErrNotExist)
	require.ErrorIs(t, failed, os.ErrNotExist)
	assert.Equal(t, "no [secret db]", m.Error(errors.New("no "+value)).Error())
	var out bytes.Buffer
	m.Logger(slog.New(slog.NewTextHandler(&out, nil))).With("a", value).Info(value, "err", errors.New(value), slog.Group("g", "b", "pin 123456"))
	assert.NotContains(t, out.String(), "wörd")
	assert.NotContains(t, out.String(), "123456")
}

func TestNoValueIsLeftInMaskedJSON(t *testing.T) {
	plain := rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "§") })
	rapid.Check(t, func(t *rapid.T) {
		value := "§" + rapid.StringN(2, 40, 200).Draw(t, "value")
		raw, err := json.Marshal(map[string]string{"a": plain.Draw(t, "before") + value + plain.Draw(t, "after")})
		if err != nil {
			t.Fatal(err)
		}
		masked := secrets.NewMask(map[string]string{"x": value}).JSON(raw)
		var out map[string]string
		if err := json.Unmarshal(masked, &out); err != nil {
			t.Fatalf("%s: %v", masked, err)
		}
		if strings.Contains(out["a"], value) {
			t.Fatalf("%q is left in %q", value, out["a"])
		}
	})
}

func TestWhoMayUseASecret(t *testing.T) {
	set := secrets.Set{
		"all":  {Read: secrets.Text("12345678")},
		"some": {Read: secrets.Text("12345678"), Namespaces: []string{"ns"}, Tenants: []string{"a", "b"}, Tools: []string{"http"}},
	}
	assert.True(t, set.Allows("all", secrets.Use{}))
	assert.True(t, set.Allows("some", secrets.Use{Namespace: "ns", Tenant: "b", Tool: "http"}))
	for _, use := range []secrets.Use{{"ns", "c", "http"}, {"other", "a", "http"}, {"ns", "a", "command"}} {
		assert.False(t, set.Allows("some", use), use)
	}
	assert.False(t, set.Allows("none", secrets.Use{}))
}

func TestValuesComeFromFilesAndProgramsAnewAtEachUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("first-value\n"), 0o600))
	set := secrets.Set{
		"file":    {Read: secrets.File(path)},
		"program": {Read: secrets.Command([]string{"cat", path}, []string{"PATH=" + os.Getenv("PATH")})},
		"short":   {Read: secrets.Text("abc")},
		"fails":   {Read: secrets.Command([]string{"false"}, nil)},
	}
	for _, want := range []string{"first-value", "second-value"} {
		require.NoError(t, os.WriteFile(path, []byte(want+"\n"), 0o600))
		for _, name := range []string{"file", "program"} {
			got, err := set.Value(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	_, err := set.Value(t.Context(), "short")
	require.ErrorContains(t, err, "it has 3 bytes: want 4 to 65536")
	_, err = set.Value(t.Context(), "fails")
	require.ErrorContains(t, err, `program "false"`)
	_, err = set.Value(t.Context(), "none")
	require.Error(t, err)
}
