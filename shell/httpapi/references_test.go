package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// madeID gives the id of what was made.
func madeID(t *testing.T, r answer) string {
	t.Helper()
	require.Equal(t, http.StatusCreated, r.status, "%s", r.body)
	var made struct {
		ID uuid.UUID `json:"id"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &made))
	return made.ID.String()
}

func heldPipeline(phases string) string {
	return `{"namespace":"n","tenant":"t","hold":true,"definition":{"name":"p","phases":[` + phases + `]}}`
}

func TestATokenThatIsBoundToToolsWaitsForNoPipelineThatItDoesNotSee(t *testing.T) {
	a := rightsKit(t)
	secret := madeID(t, a.do("POST", "/v1/pipelines", heldPipeline(`{"name":"x","push":{"queue":"q"}}`), bearer("adm")))
	waiting := madeID(t, a.do("POST", "/v1/pipelines", heldPipeline(`{"name":"x","pipelines":{"await":["`+secret+`"]}}`), bearer("adm")))
	dependent := madeID(t, a.do("POST", "/v1/pipelines", `{"namespace":"n","tenant":"t","depends_on":["`+secret+`"],"definition":{"name":"p","phases":[{"name":"x","manual":{}}]}}`, bearer("adm")))
	open := madeID(t, a.do("POST", "/v1/pipelines", heldPipeline(`{"name":"x","manual":{}}`), bearer("adm")))
	none := uuid.NewString()
	for way, w := range waysToAPhase {
		if way == "a subscriber" || way == "a worker" { // which such a token may not make at all
			continue
		}
		method, path, _ := strings.Cut(w.request, " ")
		ask := func(token, id string) answer {
			return a.do(method, path, fmt.Sprintf(w.body, `{"name":"z","pipelines":{"await":["`+id+`"]}}`), bearer(token))
		}
		if way == "a worker of a strategy" {
			assert.Contains(t, ask("b", secret).errorText(), "pipeline "+secret+" not found", way)
			continue
		}
		absent := ask("b", none)
		assert.Equal(t, http.StatusBadRequest, absent.status, "%s: %s", way, absent.body)
		assert.Equal(t, w.field+".pipelines.await[0]: pipeline "+none+" not found", absent.errorText(), way)
		for what, id := range map[string]string{"hidden": secret, "waits for a hidden one": waiting, "depends on a hidden one": dependent} {
			r := ask("b", id)
			assert.Equal(t, absent.status, r.status, "%s: %s: %s", way, what, r.body)
			assert.Equal(t, strings.ReplaceAll(absent.errorText(), none, id), r.errorText(), "%s: %s", way, what)
		}
		for _, asked := range [][2]string{{"b", open}, {"x", secret}, {"adm", secret}} {
			r := ask(asked[0], asked[1])
			assert.Contains(t, []int{http.StatusOK, http.StatusCreated}, r.status, "%s by %s: %s", way, asked[0], r.body)
		}
	}
	assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/pipelines/"+waiting, "", bearer("b")).status)
	assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/pipelines/"+dependent, "", bearer("b")).status)
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/pipelines/"+open, "", bearer("b")).status)
	r := a.do("POST", "/v1/pipelines", `{"namespace":"n","tenant":"t","depends_on":["`+waiting+`"],"definition":{"name":"p","phases":[{"name":"x","manual":{}}]}}`, bearer("b"))
	assert.Equal(t, "depends_on[0]: pipeline "+waiting+" not found", r.errorText())
}

func TestAReferenceInAwaitOfATokenThatIsBoundToToolsStandsForItsOwnPipelinesOnly(t *testing.T) {
	a := rightsKit(t)
	starts := `{"name":"s","pipelines":{"start":[{"definition":{"name":"q","phases":[{"name":"y","manual":{}}]}}]}}`
	waits := func(ref string) string { return `{"name":"z","pipelines":{"await":["` + ref + `"]}}` }
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"the phase that starts them":     {heldPipeline(starts + "," + waits("${s}")), true},
		"one of them":                    {heldPipeline(starts + "," + waits("${s.0}")), true},
		"by another output":              {heldPipeline(strings.Replace(starts, `"name":"s"`, `"name":"s","output":"o"`, 1) + "," + waits("${o}")), true},
		"what they came to":              {heldPipeline(strings.Replace(starts, `"start"`, `"wait":true,"start"`, 1) + "," + waits("${s.0.result}")), false},
		"an input":                       {`{"namespace":"n","tenant":"t","hold":true,"context":{"id":"x"},"definition":{"name":"p","inputs":[{"name":"id"}],"phases":[` + waits("${id}") + `]}}`, false},
		"a value that was set":           {heldPipeline(starts + `,{"name":"w","set":{"values":{"s":"x"}}},` + waits("${s}")), false},
		"a value of the context":         {`{"namespace":"n","tenant":"t","hold":true,"context":{"s":"x"},"definition":{"name":"p","phases":[` + starts + "," + waits("${s}") + `]}}`, false},
		"a part of a text":               {heldPipeline(starts + "," + waits("${s.0}${s.0}")), false},
		"the output of another phase":    {heldPipeline(`{"name":"s","run":{"tool":"echo","input":{}}},` + waits("${s}")), false},
		"two phases of one output":       {heldPipeline(starts + `,{"name":"w","output":"s","run":{"tool":"echo","input":{}}},` + waits("${s}")), false},
		"a definition that is filled in": {heldPipeline(`{"name":"s","run":{"tool":"starter","input":{"definition":{"name":"i","phases":[` + starts + "," + waits("$${s}") + `]}}}}`), false},
	} {
		r := a.do("POST", "/v1/pipelines", c.body, bearer("b"))
		if c.ok {
			assert.Equal(t, http.StatusCreated, r.status, "%s: %s", name, r.body)
			continue
		}
		assert.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, r.status, "%s: %s", name, r.body)
		if r.status == http.StatusForbidden {
			assert.Contains(t, r.errorText(), "the token is bound to tools, and the server cannot tell which pipeline the reference stands for", name)
		}
	}
}
