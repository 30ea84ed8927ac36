package page

import (
	"net/http"
	"regexp"
	"strings"
)

// ofToken begins the API's refusals of a token, which is the visitor's.
var ofToken = regexp.MustCompile(`^token: "[^"]*" `)

// mayNot says why the visitor's token does not allow an operation of the API, whatever it would be about; "" if it may.
func (q *visit) mayNot(method, path string) string {
	why := q.p.o.API.Refusal(q.who, method, path)
	if why == "" {
		return ""
	}
	return ofToken.ReplaceAllLiteralString(strings.TrimSuffix(why, "."), "Your token ") + "."
}

// refuses says why the visitor may not do it, as far as their token alone tells. An act on several kinds is refused if
// each of them is.
func (a act) refuses(q *visit) (why string) {
	if a.many == nil {
		return q.mayNot(a.method, a.api)
	}
	for _, k := range a.many.kinds {
		if why = q.mayNot(http.MethodPost, "/v1/"+k.path+"/bulk"); why == "" {
			break
		}
	}
	return why
}
