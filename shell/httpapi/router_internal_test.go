package httpapi

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestARouterKnowsWhereTheRequestsOfEachRouteGo(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range idleServer(t).routes() {
		name := rt.method + " " + rt.path
		known[name] = true
		p, ok := placings[name]
		require.True(t, ok, "%s: say in placings where its requests go", name)
		assert.NotZero(t, p.how, name)
		assert.Equal(t, p.how == ofID, p.kind != "", "%s: the path at which its machine is asked for", name)
		if rt.access.who() == webhookSender || rt.access.who() == anyone {
			assert.Contains(t, []way{here, ofHook}, p.how, "%s: it comes without a token, by which others are placed", name)
		}
		if rt.access&lists != 0 && p.how == ofTenant {
			assert.NotNil(t, p.merge, "%s: a list over several tenants", name)
		}
	}
	for name := range placings {
		assert.True(t, known[name], "%s: there is no such route", name)
	}
}

func TestARouterAsksWhereAMachineIsAndWhatItMakesOneAnswerOf(t *testing.T) {
	for request, want := range map[string]bool{
		"GET GET /v1/actions": true, "GET GET /v1/events": true, "GET GET /v1/sets": true, "POST POST /v1/system/resume": true, "POST POST /v1/runs/bulk": true, "POST POST /v1/actions/batch": true, "POST POST /v1/events": true,
		"HEAD GET /v1/actions/{id}": true, "HEAD GET /v1/changes/{kind}/{id}": true,
		"GET GET /v1/actions/{id}": false, "HEAD GET /v1/actions": false, "HEAD GET /v1/actions/{id}/logs": false, "GET GET /v1/queues/{name}": false, "GET GET /v1/queues/{name}/items": false,
		"POST POST /v1/actions": false, "POST POST /v1/jobs/bulk": false, "GET GET /v1/backup": false, "GET GET /metrics": false, "GET GET /v1/audit": false, "GET ": false,
	} {
		method, route, _ := strings.Cut(request, " ")
		assert.Equal(t, want, routerAsks(method, route), request)
	}
}

// Entries of several logs at one moment, and logs whose pages end early, are listed each once.
func TestPagesOfSeveralLogsLoseAndRepeatNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 1))
	for range 300 {
		logs := map[string][]uint64{}
		for _, name := range []string{"a", "b", "c"} {
			for seq := uint64(30); seq > 0; seq-- {
				if random.IntN(3) == 0 {
					logs[name] = append(logs[name], seq)
				}
			}
		}
		limit, scan := 1+random.IntN(6), 1+random.IntN(5)
		var got []auditPlace
		at := auditPlace{}
		for pages := 0; ; pages++ {
			require.Less(t, pages, 200)
			var parts []auditPart
			for _, name := range []string{"a", "b", "c"} {
				p := auditPart{name: name}
				looked, before := 0, uint64(math.MaxUint64)
				if at.seq > 0 {
					before = at.before(name)
				}
				for _, seq := range logs[name] {
					if seq >= before {
						continue
					}
					if len(p.list.Entries) == limit || looked == scan {
						break
					}
					looked++
					p.next = seq
					if seq%5 != 0 { // others are not asked for
						p.list.Entries = append(p.list.Entries, audit.Entry{Seq: seq, Instance: name})
					}
				}
				if p.next > 0 && p.next == logs[name][len(logs[name])-1] {
					p.next = 0
				}
				parts = append(parts, p)
			}
			var list wire.AuditList
			list, at = mergeAudits(parts, limit)
			assert.LessOrEqual(t, len(list.Entries), limit)
			for _, e := range list.Entries {
				got = append(got, auditPlace{e.Seq, e.Instance})
			}
			if at.seq == 0 {
				break
			}
			text, err := parseAuditPlace(at.String())
			require.NoError(t, err)
			at = text
		}
		var want []auditPlace
		for seq := uint64(30); seq > 0; seq-- {
			for _, name := range []string{"a", "b", "c"} {
				if seq%5 != 0 && slices.Contains(logs[name], seq) {
					want = append(want, auditPlace{seq, name})
				}
			}
		}
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "7", "x a", "0 a", "-1 a"} {
		_, err := parseAuditPlace(text)
		require.Error(t, err, text)
	}
}

func TestTheAnswersToPartsOfRequestsCountAsThoseToOthers(t *testing.T) {
	s, err := New(Options{Engine: idleServer(t).engine, Tokens: []Token{{Name: "any", SHA256: HashToken("secret")}}})
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/limits", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	token, err := s.authenticate(r)
	require.NoError(t, err)
	c := &call{token: token, part: otherPart}
	w := new(statusWriter)
	s.heldBy(c.token).parts.most = 1
	leave, err := s.enter(route{}, w, r, c)
	require.NoError(t, err)
	release, err := w.holdAnswer(int(s.o.MaxBodyBytesInFlight))
	require.NoError(t, err)
	leave()
	_, err = s.enter(route{}, new(statusWriter), r, c)
	require.ErrorContains(t, err, "the large answers of \"any\" are not read yet")
	release()
	leave, err = s.enter(route{}, new(statusWriter), r, c)
	require.NoError(t, err, "and the slot is given back")
	leave()
}

func TestABulkActThatSaysThatItIsAPartTakesASlotOfThose(t *testing.T) {
	var f inFlight
	for part, want := range map[partKind]*slots{whole: &f.bulks, otherPart: &f.partBulks, ownPart: nil} {
		c := call{part: part}
		assert.Same(t, want, c.slotsFor(&f.bulks, &f.partBulks))
	}
}

func TestWhatIsRememberedOfMachinesIsBounded(t *testing.T) {
	f := found{most: 8}
	for i := range 100 {
		f.put(fmt.Sprint(i), i)
		_, ok := f.get("0") // it is asked for all the time
		assert.True(t, ok, i)
		assert.LessOrEqual(t, len(f.newer)+len(f.older), 8)
	}
	_, ok := f.get("1")
	assert.False(t, ok)
	f.forget("0")
	_, ok = f.get("0")
	assert.False(t, ok)
}

func TestOfThePartsOfRequestsAsManyAsPartitionsCountAsOne(t *testing.T) {
	var p parts
	counted := 0
	for range 10 {
		if p.counts(&Token{Name: "a"}, 4) {
			counted++
		}
	}
	assert.Equal(t, 3, counted, "the first, the fifth and the ninth")
	assert.True(t, p.counts(&Token{Name: "b"}, 4))
}
