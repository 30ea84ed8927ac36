package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// bulk is a command that makes many of something from a file with one JSON object a line.
type bulk struct {
	a     *app
	path  func(args []string) string // that the requests go to, but for its query
	field string                     // of the body, that lists the entries
	scope *scoped                    // fills in what a line leaves out; nil: it is in the query
	query *scoped
	// line says in a line what became of an entry that was not refused.
	line func(raw json.RawMessage) (string, error)

	each bool
}

// maxBulkBytes is how many bytes of lines go into one request with --each, beside the first.
const maxBulkBytes = 256 << 10

const bulkLong = `
FILE has one JSON object a line, - stands for stdin; empty lines are passed over. All
are taken or, if one of them is refused, none, in one request of %d lines at most.
With --each every line is taken or refused by itself, in as many requests as it takes:
a line is printed for each that is taken, those that are refused are told on the
standard error with their numbers, and the command ends with 1 if there is one.`

// command gives the command, whose last argument is the file.
func (b *bulk) command(use, short, long, example string, args cobra.PositionalArgs) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + fmt.Sprintf(bulkLong, shell.MaxEntries), Example: example, Args: args,
		RunE: b.a.withClient(func(ctx context.Context, c *client, args []string) error { return b.run(ctx, c, args) }),
	}
	cmd.Flags().BoolVar(&b.each, "each", false, "take or refuse each line by itself, instead of all or none")
	return cmd
}

// entry is a line of the file that is no empty one.
type entry struct {
	number int // from 1
	raw    json.RawMessage
}

func (b *bulk) run(ctx context.Context, c *client, args []string) error {
	name := args[len(args)-1]
	in := b.a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return usagef("FILE: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	lines := &entryReader{name: name, r: bufio.NewReader(in), fill: b.fill, each: b.each}
	all := wireResults{Results: []json.RawMessage{}}
	failed := 0
	for {
		list, err := lines.next()
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		results, err := b.send(ctx, c, b.path(args), name, list)
		if err != nil {
			return err
		}
		all.Results = append(all.Results, results...)
		n, err := b.tell(name, list, results)
		if failed += n; err != nil {
			return err
		}
	}
	if b.a.json {
		raw, err := json.Marshal(all)
		if err == nil {
			err = b.a.print(raw, view{})
		}
		if err != nil {
			return err
		}
	}
	switch {
	case len(all.Results) == 0:
		return usagef("%s has no line", name)
	case failed > 0:
		return fmt.Errorf("%d of %d lines are refused", failed, len(all.Results))
	}
	return nil
}

// wireResults are the answers to all requests.
type wireResults struct {
	Results []json.RawMessage `json:"results"`
}

// send sends entries, and gives what became of each.
func (b *bulk) send(ctx context.Context, c *client, path, name string, list []entry) ([]json.RawMessage, error) {
	body := map[string]any{"mode": wire.ModeAll}
	if b.each {
		body["mode"] = wire.ModeEach
	}
	entries := make([]json.RawMessage, len(list))
	for i, e := range list {
		entries[i] = e.raw
	}
	body[b.field] = entries
	var answer wireResults
	_, err := c.json(ctx, request{method: http.MethodPost, path: path, query: b.query.query(), body: body}, &answer)
	if err != nil {
		return nil, b.named(name, list, err)
	}
	if len(answer.Results) != len(list) {
		return nil, fmt.Errorf("%d entries were sent and %d answered: is --server right?", len(list), len(answer.Results))
	}
	return answer.Results, nil
}

// tell prints what became of entries, and counts those that were refused.
func (b *bulk) tell(name string, list []entry, results []json.RawMessage) (failed int, err error) {
	for _, raw := range results {
		var refused struct{ Error string }
		if err := json.Unmarshal(raw, &refused); err != nil {
			return failed, fmt.Errorf("read the answer: %w", err)
		}
		if refused.Error != "" {
			failed++
			text.Sayf(b.a.err, "%s\n", text.Clean(b.named(name, list, errors.New(refused.Error)).Error()))
			continue
		}
		line, err := b.line(raw)
		if err == nil && !b.a.json {
			err = b.a.printLine(nil, line)
		}
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
}

var entryIndex = regexp.MustCompile(`^[a-z]+\[(\d+)\](?:\.|: )?`)

// named names the line that an error of the API is about.
func (b *bulk) named(name string, list []entry, err error) error {
	found := entryIndex.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	i, convErr := strconv.Atoi(found[1])
	if convErr != nil || i >= len(list) {
		return err
	}
	return fmt.Errorf("%s:%d: %s", name, list[i].number, err.Error()[len(found[0]):])
}

// fill adds the namespace and the tenant of the flags to an object that names none.
func (b *bulk) fill(raw json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, errors.New("is no JSON object on one line")
	}
	if b.scope == nil {
		return raw, nil
	}
	raw = bytes.TrimSpace(raw)
	for _, own := range []struct{ name, value string }{{"tenant", b.scope.tenant}, {"namespace", b.scope.namespace}} {
		if _, given := members[own.name]; given {
			continue
		}
		member, err := text.PlainJSON(map[string]string{own.name: own.value})
		if err != nil {
			return nil, err
		}
		if rest := bytes.TrimSpace(raw[1:]); rest[0] != '}' {
			raw = append(append(member[:len(member)-1:len(member)-1], ','), rest...)
		} else {
			raw = member
		}
	}
	return raw, nil
}

// entryReader reads entries in parts that each fit a request.
type entryReader struct {
	name   string
	r      *bufio.Reader
	fill   func(json.RawMessage) (json.RawMessage, error)
	each   bool
	number int
	kept   *entry // read, and too much for the part before
	ended  bool
}

// next reads the entries of the next request; none: there are no more.
func (r *entryReader) next() (list []entry, err error) {
	for size := 0; ; {
		e := r.kept
		if r.kept = nil; e == nil {
			if e, err = r.entry(); err != nil || e == nil {
				return list, err
			}
		}
		if len(list) > 0 && r.each && (len(list) == shell.MaxEntries || size+len(e.raw) > maxBulkBytes) {
			r.kept = e
			return list, nil
		}
		if !r.each && len(list) == shell.MaxEntries {
			return nil, usagef("%s has more than %d lines, which cannot be taken as one: give --each, or a part of them", r.name, shell.MaxEntries)
		}
		list, size = append(list, *e), size+len(e.raw)
	}
}

// entry reads the next line that is not empty; nil: there are no more.
func (r *entryReader) entry() (*entry, error) {
	for !r.ended {
		raw, err := r.r.ReadBytes('\n')
		if r.ended = errors.Is(err, io.EOF); err != nil && !r.ended {
			return nil, usagef("%s: %w", r.name, err)
		}
		r.number++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		if raw, err = r.fill(raw); err != nil {
			return nil, usagef("%s:%d: %w", r.name, r.number, err)
		}
		return &entry{r.number, raw}, nil
	}
	return nil, nil
}

// addMany is the command that makes actions from a file.
func (a *app) addMany() *cobra.Command {
	var s scoped
	b := &bulk{
		a: a, field: "actions", scope: &s, path: func([]string) string { return "/v1/actions/batch" },
		line: func(raw json.RawMessage) (string, error) {
			var res wire.ActionResult
			if err := json.Unmarshal(raw, &res); err != nil || res.Action == nil {
				return "", fmt.Errorf("read the answer: %w", err)
			}
			return fmt.Sprintf("%s\t%s", res.Action.ID, res.Action.Status.Type), nil
		},
	}
	return s.addFlags(a, b.command("add-many FILE", "Add many actions from a file, all of them or each",
		`Add many actions. Each line has the fields of POST /v1/actions, such as
{"tool_name":"command","tool_input":{"argv":["echo","hi"]},"label":"say hi"}; what it leaves
out of namespace and tenant is that of the flags. Give each an "id" of your own, and the
command can be repeated safely. For each its id and its status are printed.
`, `  orreryd actions add-many actions.jsonl
  jq -c '.jobs[] | {tool_name: "command", tool_input: {argv: .argv}}' plan.json | orreryd actions add-many --each -`, oneArg("FILE")))
}

// pushMany is the command that pushes items from a file.
func (q *queue) pushMany() *cobra.Command {
	b := &bulk{
		a: q.a, field: "items", query: q.scope, path: func(args []string) string { return q.of(args[0], "items", "batch") },
		line: func(raw json.RawMessage) (string, error) {
			var res wire.PushResult
			if err := json.Unmarshal(raw, &res); err != nil || res.Item == nil {
				return "", fmt.Errorf("read the answer: %w", err)
			}
			if res.Duplicate {
				return res.Item.ID.String() + "\tduplicate", nil
			}
			return res.Item.ID.String() + "\tpushed", nil
		},
	}
	return b.command("push-many NAME FILE", "Push many items from a file, all of them or each",
		`Push many items. Each line has the fields of an item, such as
{"data":{"to":"ada@example.com"},"priority":10,"dedup_key":"letter-7"}. For each its id is printed,
and "pushed"; or "duplicate" if another item holds its dedup key, whose id it is then.
`, `  orreryd queue push-many mail items.jsonl
  jq -c '.[] | {data: .}' letters.json | orreryd queue push-many mail --each -`, queueAndFile)
}

// queueAndFile are the arguments of push-many.
func queueAndFile(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return usagef("want NAME and FILE, as in: %s mail items.jsonl", cmd.CommandPath())
	}
	return checkQueueName(args[0])
}
