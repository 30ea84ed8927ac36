package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// described reads which statuses openapi.json gives each operation.
var described = sync.OnceValue(func() map[string]map[string]bool {
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		panic(err)
	}
	out := make(map[string]map[string]bool)
	for path, ops := range doc.Paths {
		for method, op := range ops {
			statuses := make(map[string]bool)
			for s := range op.Responses {
				statuses[s] = true
			}
			out[strings.ToUpper(method)+" "+path] = statuses
		}
	}
	return out
})

// checkDescribed holds every answer that any test gets against the description
// of the API: its status must stand there.
func checkDescribed(t *testing.T, r *http.Request, status int) {
	t.Helper()
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	statuses, ok := described()[method+" "+r.URL.Path]
	for op, s := range described() {
		if m, path, _ := strings.Cut(op, " "); !ok && m == method && isPathOf(path, r.URL.Path) {
			statuses, ok = s, true
		}
	}
	if !ok || status == http.StatusInternalServerError || status == http.StatusMethodNotAllowed {
		return // 404, 405 and 500 are described for all paths together
	}
	assert.True(t, statuses[strconv.Itoa(status)], "%s %s is answered with %d, which openapi.json does not have", r.Method, r.URL.Path, status)
}

// ofRouters are described for all paths together: what several partitions may answer beside that.
var ofRouters = map[int]bool{
	http.StatusConflict: true, http.StatusMisdirectedRequest: true, http.StatusUnprocessableEntity: true, http.StatusNotImplemented: true, http.StatusBadGateway: true,
}

// isPathOf reports whether a path is one of those that a template stands for.
func isPathOf(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}
