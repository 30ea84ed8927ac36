package forward

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/brokentest"
)

// edit breaks a file of the repository: what stands in it once is replaced.
type edit struct{ File, Is, Becomes string }

const (
	theForwarder = "shell/fleet/forward/forward.go"
)

// wrong are defects of the forwarding, each of which a storm finds.
var wrong = map[string][]edit{
	"no key is given":                                   {{theForwarder, `out.Header.Set("Idempotency-Key", "forwarded-"+uuid.NewString())`, "_ = uuid.NewString"}},
	"each attempt has a key of its own":                 {{theForwarder, "resp, err := f.o.Transport.RoundTrip(out)", "if strings.HasPrefix(out.Header.Get(\"Idempotency-Key\"), \"forwarded-\") {\n\t\tout.Header.Set(\"Idempotency-Key\", uuid.NewString())\n\t}\n\tresp, err := f.o.Transport.RoundTrip(out)"}},
	"all requests have one key":                         {{theForwarder, `"forwarded-"+uuid.NewString()`, `"forwarded-"+uuid.Nil.String()`}},
	"the caller's key is replaced":                      {{theForwarder, `if out.Header.Get("Idempotency-Key") == "" {`, "{"}},
	"what knows no keys is sent again":                  {{theForwarder, "harmless := isKept || bodiless && isRead(r)", "harmless := true"}},
	"webhooks are taken for requests with keys":         {{theForwarder, ` && !strings.HasPrefix(r.URL.Path, "/v1/webhooks/")`, ""}},
	"what changes something is never sent again":        {{theForwarder, "harmless := isKept || bodiless && isRead(r)", "harmless := bodiless && isRead(r)"}},
	"what reads is never sent again":                    {{theForwarder, "harmless := isKept || bodiless && isRead(r)", "harmless := isKept"}},
	"a body that was begun is sent again":               {{theForwarder, "bodiless && notSent(err); !ok", "notSent(err); !ok"}},
	"a kept body is sent once":                          {{theForwarder, "\tif isKept {\n\t\tout.Body", "\tif isKept && body == nil {\n\t\tout.Body"}},
	"half of a body is kept":                            {{theForwarder, "kept(all)))", "kept(all[:len(all)/2])))"}},
	"a request waits for one that works no more":        {{theForwarder, "if now, changed = f.owner(); now != o {", "if now, changed = f.owner(); now.token > o.token+1000 {"}},
	"it is tried for ever":                              {{theForwarder, "\t\tif until.IsZero() {\n", "\t\t{\n"}},
	"it is tried once":                                  {{theForwarder, "return time.Now().Before(until)\n", "return false\n"}},
	"the last attempt says what became of it":           {{theForwarder, "return nil, cmp.Or(unsure, err)", "return nil, err"}},
	"who is put off is told so, whatever was before":    {{theForwarder, "unsure != nil && isKept && putOff(resp)", "false"}},
	"what may have been carried out was not":            {{theForwarder, "if notSent(err) || isRead(r) {", "if true {"}},
	"a refused connection may have carried it out":      {{theForwarder, `dialed && op.Op == "dial" || distrusted`, `dialed && op.Op == "none" || distrusted`}},
	"a broken connection has carried nothing out":       {{theForwarder, `dialed && op.Op == "dial" || distrusted`, `dialed && op.Op != "" || distrusted`}},
	"nobody may have carried it out":                    {{theForwarder, "return errors.Is(err, errNobody) || errors.Is(err, errStandsBy)", "return errors.Is(err, errStandsBy)"}},
	"who stands by may have carried it out":             {{theForwarder, "return errors.Is(err, errNobody) || errors.Is(err, errStandsBy)", "return errors.Is(err, errNobody)"}},
	"what was passed on is passed on again":             {{theForwarder, `by := r.Header.Get(Header); by != ""`, `by := r.Header.Get(Header); by == "nobody"`}},
	"nobody says that it was passed on":                 {{theForwarder, "r.Out.Header.Set(Header, f.o.Name)\n", ""}},
	"who stands by does not say so":                     {{theForwarder, "\t\tw.Header().Set(refusedHeader, f.o.Name)\n", ""}},
	"who stands by is believed to work":                 {{theForwarder, `resp.Header.Get(refusedHeader) != ""`, `resp.Header.Get(refusedHeader) == "nobody"`}},
	"nobody says when to come again":                    {{theForwarder, "\tw.Header().Set(\"Retry-After\", \"1\")\n", ""}},
	"the kept bytes are not given back":                 {{theForwarder, "\tdefer f.kept.Add(-bytes)\n", "\t_ = bytes\n"}},
	"slots are not given back":                          {{theForwarder, "defer func() { <-f.slots }()", "defer func() {}()"}},
	"anybody says where a request comes from":           {{theForwarder, "if f.o.Open || f.trusts(r.In.RemoteAddr) {", "if true {"}},
	"nobody is trusted with where a request comes from": {{theForwarder, "if f.o.Open || f.trusts(r.In.RemoteAddr) {", "if f.o.Open {"}},
	"the host is the owner's":                           {{theForwarder, "r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery", `r.Out.Host, r.Out.URL.RawQuery = "", r.In.URL.RawQuery`}},
	"the query is lost":                                 {{theForwarder, "r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery", `r.Out.Host, r.Out.URL.RawQuery = r.In.Host, ""`}},
	"rights are not passed on":                          {{theForwarder, "\tr.Out.Header.Set(Header, f.o.Name)\n", "\tr.Out.Header.Set(Header, f.o.Name)\n\tr.Out.Header.Del(\"Authorization\")\n"}},
	"nobody to ask ends what has a body":                {{theForwarder, "ok := harmless || errors.Is(err, errNobody) || bodiless", "ok := harmless || bodiless"}},
}

const withinSeeds = 1000

// TestStormsOfABrokenSource is run by the test below, in a copy.
func TestStormsOfABrokenSource(t *testing.T) {
	brokentest.Inside(t)
	for seed := uint64(1); seed <= withinSeeds; seed++ {
		require.Empty(t, weather(t, seed), "seed %d", seed)
	}
}

func TestWhatIsWrongInTheForwardingIsFound(t *testing.T) {
	names := brokentest.Few(t, wrong, "what knows no keys is sent again", "the last attempt says what became of it")
	broken := brokentest.Build(t, wrong)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			found := broken.Found(t, name, "TestStormsOfABrokenSource")
			assert.NotEmpty(t, found, "it is not found within %d seeds", withinSeeds)
			t.Log(found)
		})
	}
}
