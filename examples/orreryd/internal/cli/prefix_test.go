package cli

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

func TestTheBeginningOfAnIDIsToldFromOtherTexts(t *testing.T) {
	t.Parallel()
	id := "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	for n := shortestID; n < len(id); n++ {
		assert.True(t, isPrefix(id[:n]), id[:n])
		assert.True(t, isPrefix(strings.ToUpper(id[:n])), id[:n])
	}
	for _, no := range []string{"", "0193f2a", id, strings.ReplaceAll(id, "-", ""), "0193f2a45", "0193f2a4--", "0193f2ag", id + "0", "nightly:2026-03-01T02:00:00.000Z", "0193f2a4-5b6c7"} {
		assert.False(t, isPrefix(no), no)
	}
}

// manyActions answers as a daemon with so many actions, whose ids count, page by page; the
// whole list has more.
func manyActions(total int, more bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/find" { // it is of an earlier version
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"path: \"/v1/find\" is unknown"}`))
			return
		}
		var from int
		_, _ = fmt.Sscanf(r.URL.Query().Get("page_token"), "%d", &from)
		list := []map[string]any{}
		for n := from; n < min(from+1000, total); n++ {
			list = append(list, map[string]any{"id": fmt.Sprintf("%08x-0000-7000-8000-000000000000", n/2)})
		}
		next := ""
		if from+1000 < total || more {
			next = fmt.Sprint(from + 1000)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"actions": list, "next_page_token": next})
	}
}

func TestTheBeginningOfAnIDMustBeThatOfOneAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		handler http.HandlerFunc
		id      string
		code    int
		says    string
	}{
		{manyActions(2000, false), "00000001", exitUsage, `"00000001" is the beginning of 2 ids: 00000001-0000-7000-8000-000000000000, `},
		{manyActions(2000, false), "ffffffff", exitNotFound, `there is no action whose id begins with "ffffffff"`},
		{manyActions(20_000, true), "ffffffff", exitNotFound, `none of the newest 10000 of the list has an id that begins with "ffffffff": give the whole id`},
	} {
		r := against(t, tt.handler, "actions", "show", tt.id)
		assert.Equal(t, tt.code, r.code, r.err)
		assert.Contains(t, r.err, tt.says)
	}
}

func TestCommandsTakeTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	action := p.add("--in", "1h", "--", "true")
	recurring := anID.FindString(p.ok("recurring", "add", "--cron", "@yearly", "--", "true"))
	item := anID.FindString(p.ok("queue", "push", "mail"))
	task := anID.FindString(p.ok("task", "create", "--idle-timeout", "24h", "--heartbeat-timeout", "24h"))
	short := func(id string) string { return id[:len(id)-4] }
	for _, tt := range []struct {
		id   string
		args []string
	}{
		{action, []string{"actions", "show", short(action)}},
		{action, []string{"actions", "cancel", short(strings.ToUpper(action))}},
		{recurring, []string{"recurring", "show", short(recurring)}},
		{recurring, []string{"recurring", "pause", short(recurring)}},
		{recurring, []string{"recurring", "resume", short(recurring)}},
		{"UTC", []string{"recurring", "preview", short(recurring)}},
		{"nothing has been due yet", []string{"recurring", "history", short(recurring)}},
		{recurring, []string{"recurring", "update", short(recurring), "--description", "new", "--", "false"}},
		{recurring, []string{"recurring", "delete", short(recurring)}},
		{item, []string{"queue", "item", "show", "mail", short(item)}},
		{item, []string{"queue", "item", "remove", "mail", short(item)}},
		{task, []string{"task", "heartbeat", short(task), "--progress", "half"}},
		{task, []string{"task", "complete", short(task)}},
		{task, []string{"task", "wait", short(task)}},
	} {
		assert.Contains(t, p.ok(tt.args...), tt.id, "%v", tt.args)
	}
	r := p.do("actions", "show", uuid.NewString()[:8])
	require.Equal(t, exitNotFound, r.code, r.err)
	r = p.do("run", "show", uuid.NewString()[:8])
	assert.Equal(t, exitNotFound, r.code, r.err)
}
