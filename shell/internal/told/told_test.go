package told_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/told"
)

// Whatever users choose: the names stay those that are documented, no value can end a line
// or a variable, and a receiver gets back what was chosen.
func TestNoValueInjectsAVariableOrAHeader(t *testing.T) {
	fixed := map[string]bool{}
	for _, p := range told.Environ(shell.Call{}) {
		fixed[p.Name] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\r\nX-Evil: 1", "\x7f", " a ", "100%", "ü", "\U0001f600", "\n\n", "%0a"}))
		table := rapid.MapOfN(text, text, 0, 5)
		call := shell.Call{
			ActionID: uuid.New(), Namespace: text.Draw(t, "namespace"), Tenant: text.Draw(t, "tenant"), Label: text.Draw(t, "label"),
			Metadata: table.Draw(t, "metadata"), Labels: table.Draw(t, "labels"),
			Route: text.Draw(t, "route"),
		}
		sent, err := json.MarshalIndent(table.Draw(t, "headers"), "", "\n\t") // raw line ends between its members
		require.NoError(t, err)
		call.Header = sent
		for _, p := range told.Environ(call) {
			require.True(t, fixed[p.Name], "%q", p.Name)
			if p.Name == "ORRERY_METADATA" && p.Value != "" {
				var back map[string]string
				require.NoError(t, json.Unmarshal([]byte(p.Value), &back))
				require.Equal(t, call.Metadata, back)
			}
			if p.Name == "ORRERY_WEBHOOK_HEADERS" {
				require.JSONEq(t, string(call.Header), p.Value)
				require.NotContains(t, p.Value, "\n")
			}
		}
		for _, p := range told.Headers(call) {
			require.True(t, fixed[strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))], "%q", p.Name)
			for i := range len(p.Value) {
				require.True(t, p.Value[i] >= ' ' && p.Value[i] <= '~', "%s: %q", p.Name, p.Value)
			}
			switch p.Name {
			case "Orrery-Label":
				back, err := url.PathUnescape(p.Value)
				require.NoError(t, err)
				require.Equal(t, call.Label, back)
			case "Orrery-Labels":
				var back map[string]string
				require.NoError(t, json.Unmarshal([]byte(p.Value), &back))
				require.Equal(t, call.Labels, back)
			}
		}
	})
}

func TestAServerIsToldTheHeadersOfAWebhookWithoutItsSignature(t *testing.T) {
	call := shell.Call{Route: "git", Header: json.RawMessage(`{"x-github-event":"püsh","X-Hub-Signature-256":"s","webhook-signature":"s"}`)}
	got := map[string]string{}
	for _, p := range append(told.Headers(call), told.Environ(call)...) {
		got[p.Name] = p.Value
	}
	assert.Equal(t, "git", got["Orrery-Webhook-Route"])
	assert.Contains(t, got["Orrery-Webhook-Headers"], `"p\u00fcsh"`)
	assert.JSONEq(t, `{"x-github-event":"püsh"}`, got["Orrery-Webhook-Headers"])
	assert.Equal(t, "git", got["ORRERY_WEBHOOK_ROUTE"])
	assert.JSONEq(t, string(call.Header), got["ORRERY_WEBHOOK_HEADERS"], "a command may check the signature")
}

func TestHeadersAsAServerReadsThem(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(r.Header)
	}))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	for _, p := range told.Headers(shell.Call{Label: " é\r\nX-Evil: 1", Metadata: map[string]string{"😀": "\x7f"}}) {
		req.Header.Set(p.Name, p.Value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var got http.Header
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
	assert.Equal(t, []string{"%20%C3%A9%0D%0AX-Evil: 1"}, got["Orrery-Label"])
	assert.Equal(t, []string{`{"\ud83d\ude00":"\u007f"}`}, got["Orrery-Metadata"])
	assert.NotContains(t, got, "X-Evil")
}

func TestAHeaderThatIsTooLongIsNamedAndLeftOut(t *testing.T) {
	got := map[string]string{}
	for _, p := range told.Headers(shell.Call{Label: strings.Repeat("\n", 700), Labels: map[string]string{"a": strings.Repeat("x", 2048)}}) {
		got[p.Name] = p.Value
	}
	assert.Equal(t, map[string]string{"Orrery-Action-Id": uuid.Nil.String(), "Orrery-Attempt": "0", "Orrery-Left-Out": "Orrery-Label, Orrery-Labels"}, got)
}
