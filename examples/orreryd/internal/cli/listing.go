package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// listing is a command that prints a list of the API, page by page.
type listing[S any] struct {
	use, short, example string               // use: default "list"
	args                cobra.PositionalArgs // default none
	complete            cobra.CompletionFunc

	path  string // of the API: "/v1/pipelines"
	of    string // what is listed of the path's machine that the argument names: "items"
	field string // of the answer
	// scope is that of each request; nil: the flags --namespace and --tenant narrow the list.
	scope   *scoped
	filters []filter
	narrow  func(url.Values) // changes what is asked for, after the filters; nil: nothing
	whole   resolver         // puts the whole id in the place of the argument; nil: it is no id

	timed  bool // by creation, so that it takes --since and --until
	fails  bool // it takes --failed-since
	inLine bool // it has an order of its own, which cannot be turned around

	lines bool        // with --json it prints one element a line
	json  func(S) any // what --json prints of an element; nil: what the API answers

	none   string         // printed if the list is empty; %s: the tenant, and the namespace
	name   func(S) string // what other commands take for it: its id or its name
	header []string
	row    func(S) []string
	// rows gives header and rows if they depend on the whole list, or on the argument.
	rows func(args []string, list []S) (header []string, rows [][]string)
}

// filter is a flag that narrows a list, by the query parameter param, default flag.
type filter struct {
	flag, param, usage string
	words              []string // that the flag takes; nil: any
	boolean            bool
	moment             bool // a time, or a duration before now
	pairs              bool // KEY=VALUE, perhaps several
	check              func(value string) error
}

// inScopes are the filters of lists over all tenants.
var inScopes = []filter{
	{flag: "namespace", usage: "only of that `namespace`"},
	{flag: "tenant", usage: "only of that `tenant`"},
}

// byStatus narrows a list to what is in a status.
func byStatus[T ~string](words ...T) filter {
	list := wordsOf(words...)
	return filter{flag: "status", usage: "only in that `status`: " + strings.Join(list, ", "), words: list}
}

// madeBetween narrows a list to what was created between two times.
var madeBetween = []filter{
	{flag: "since", usage: "only those created at that `time` or later, in RFC 3339, or a duration such as 24h before now", moment: true},
	{flag: "until", usage: "only those created before that `time`, likewise", moment: true},
}

// failedSince narrows a list to what has failed of late.
var failedSince = filter{
	flag: "failed-since", param: "failed_since", moment: true,
	usage: "only those that failed at that `time` or later, in the order in which they did, in RFC 3339, or a duration such as 24h before now",
}

// wordsOf gives words as texts.
func wordsOf[T ~string](words ...T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// switchedBy narrows a list to what is so, or with =false to what is not.
func switchedBy(flag string) filter {
	return filter{flag: flag, boolean: true, usage: fmt.Sprintf("only those that are %s, or with --%[1]s=false only those that are not; both without the flag", flag)}
}

// add adds the filter's flag.
func (f filter) add(cmd *cobra.Command) {
	switch {
	case f.boolean:
		cmd.Flags().Bool(f.flag, false, f.usage)
	case f.pairs:
		cmd.Flags().StringArray(f.flag, nil, f.usage)
	default:
		cmd.Flags().String(f.flag, "", f.usage)
	}
	if f.words != nil {
		fixed(cmd, f.flag, f.words)
	}
}

// set puts what the flag says into a query.
func (f filter) set(cmd *cobra.Command, q url.Values) error {
	if !cmd.Flags().Changed(f.flag) {
		return nil
	}
	param := cmp.Or(f.param, f.flag)
	if f.pairs {
		list, err := cmd.Flags().GetStringArray(f.flag)
		if err == nil {
			_, err = parsePairs(f.flag, list)
		}
		q[param] = list
		return err
	}
	q.Set(param, cmd.Flags().Lookup(f.flag).Value.String())
	switch {
	case f.moment:
		at, err := momentOf(f.flag, q.Get(param), time.Now())
		q.Set(param, timeText(at))
		return err
	case f.words != nil:
		return checkOneOf(f.flag, q.Get(param), f.words)
	case f.check != nil && q.Get(param) != "":
		if err := f.check(q.Get(param)); err != nil {
			return flagged(f.flag, err)
		}
	}
	return nil
}

// page says which part of a list is wanted.
type page struct {
	limit int
	token string
	all   bool
	// beside is given each answer, for what stands beside the list; nil: nothing does.
	beside func(answer map[string]json.RawMessage) error
}

func (p *page) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&p.limit, "limit", 50, "`rows` of one page, at most 1000")
	f.StringVar(&p.token, "page-token", "", "go on where the page that printed that `token` ended")
	f.BoolVar(&p.all, "all", false, "all pages")
}

// command makes the command.
func (l listing[S]) command(a *app) *cobra.Command {
	if l.scope == nil {
		l.filters = append(append([]filter{}, inScopes...), l.filters...)
	}
	cmd := &cobra.Command{Use: cmp.Or(l.use, "list"), Short: l.short, Example: l.example, Args: l.args, ValidArgsFunction: l.complete}
	if l.args == nil {
		cmd.Args = noArgs
	}
	if l.timed {
		l.filters = append(slices.Clone(l.filters), madeBetween...)
	}
	if l.fails {
		l.filters = append(slices.Clone(l.filters), failedSince)
	}
	if !l.inLine {
		l.filters = append(slices.Clone(l.filters), filter{flag: "order", usage: "which come first, `newest` or oldest (default newest)", words: []string{"newest", "oldest"}})
	}
	var p page
	flags := a.addListFlags(cmd, formWide, formJSON, formName)
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		q, err := l.query(cmd)
		if err == nil && l.whole != nil {
			finder{path: l.path, scope: l.scope}.narrow(c, cmd)
			args, err = l.whole(ctx, c, args)
		}
		if err != nil {
			return err
		}
		path := l.path
		if l.of != "" {
			path = machine[S]{path: path}.of(args[0], l.of)
		}
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			raws, list, next, err := readPages[S](ctx, c, request{method: http.MethodGet, path: path, query: maps.Clone(q)}, l.field, p)
			return l.answered(a, args, raws, list, next), err
		})
	})
	for _, f := range l.filters {
		f.add(cmd)
	}
	p.addFlags(cmd)
	return cmd
}

// query is what the flags of a command ask for.
func (l listing[S]) query(cmd *cobra.Command) (url.Values, error) {
	q := l.scope.query()
	for _, f := range l.filters {
		if err := f.set(cmd, q); err != nil {
			return nil, err
		}
	}
	if l.narrow != nil {
		l.narrow(q)
	}
	return q, nil
}

// answered is a list as it can be printed.
func (l listing[S]) answered(a *app, args []string, raws []json.RawMessage, list []S, next string) answered {
	out := answered{next: next, names: make([]string, len(list)), people: func(s screen) string { return l.text(args, list, s) }}
	for i, v := range list {
		out.names[i] = l.name(v)
	}
	out.json = func() error {
		switch {
		case l.json != nil:
			elements := make([]any, len(list)) // an empty list is [] and not null
			for i, v := range list {
				elements[i] = l.json(v)
			}
			return a.printJSON(map[string]any{l.field: elements, "next_page_token": next})
		case !l.lines:
			return a.printJSON(map[string]any{l.field: raws, "next_page_token": next})
		}
		if err := a.printLines(raws); err != nil {
			return err
		}
		return a.sayMore(next)
	}
	return out
}

// listWhole has a command print a list that has no pages: the daemon answers it whole.
func listWhole[S, List any](a *app, cmd *cobra.Command, l listing[S], path string, of func(List) []S) {
	flags := a.addListFlags(cmd, formWide, formJSON, formName)
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			var list List
			raw, err := c.json(ctx, request{method: http.MethodGet, path: path}, &list)
			out := l.answered(a, nil, nil, of(list), "")
			out.json = func() error { return a.printJSON(raw) }
			return out, err
		})
	})
}

// text is a list for people.
func (l listing[S]) text(args []string, list []S, s screen) string {
	header := l.header
	var rows [][]string
	if l.rows != nil {
		header, rows = l.rows(args, list)
	} else {
		rows = rowsOf(list, l.row)
	}
	if len(rows) > 0 {
		return table{header, rows}.text(s)
	}
	none := l.none
	if strings.Contains(none, "%s") {
		none = fmt.Sprintf(none, text.Clean(l.scope.tenant), text.Clean(l.scope.namespace))
	}
	return none + "\n"
}

// showsScope gives [listing.rows] that have each one's namespace and tenant in the second column, if any of the list is of another tenant than the caller's
// own.
func showsScope[S any](home scoped, header []string, row func(S) (scoped, []string)) func([]string, []S) ([]string, [][]string) {
	return func(_ []string, list []S) ([]string, [][]string) {
		away := slices.ContainsFunc(list, func(s S) bool { of, _ := row(s); return of != home })
		if !away {
			return header, rowsOf(list, func(s S) []string { _, cells := row(s); return cells })
		}
		return slices.Insert(slices.Clone(header), 1, "SCOPE:40"), rowsOf(list, func(s S) []string {
			of, cells := row(s)
			return slices.Insert(cells, 1, of.namespace+"/"+of.tenant)
		})
	}
}

// sayMore says how to go on, if there is more.
func (a *app) sayMore(next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.err, "There is more: --page-token %s, or --all\n", text.Clean(next))
	return err
}

// rowsOf gives a row for each of a list.
func rowsOf[S any](list []S, row func(S) []string) [][]string {
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, row(s))
	}
	return rows
}

// readPages reads one page of a list, or all that follow too: as they came, and decoded.
func readPages[S any](ctx context.Context, c *client, r request, field string, p page) (raws []json.RawMessage, list []S, next string, err error) {
	if p.limit < 1 || p.limit > 1000 {
		return nil, nil, "", usagef("--limit: %d is not between 1 and 1000", p.limit)
	}
	r.query.Set("limit", strconv.Itoa(p.limit))
	raws = []json.RawMessage{} // an empty list is [] and not null
	for token := p.token; ; token = next {
		if token != "" {
			r.query.Set("page_token", token)
		}
		var answer map[string]json.RawMessage
		if _, err := c.json(ctx, r, &answer); err != nil {
			return nil, nil, "", err
		}
		if p.beside != nil {
			if err := p.beside(answer); err != nil {
				return nil, nil, "", fmt.Errorf("read the answer of %s: %w", c.base, err)
			}
		}
		var some []json.RawMessage
		if err := json.Unmarshal(answer[field], &some); err != nil {
			return nil, nil, "", fmt.Errorf("read the answer of %s: %s: %w", c.base, field, err)
		}
		for _, raw := range some {
			var s S
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, nil, "", fmt.Errorf("read the answer of %s: %w", c.base, err)
			}
			raws, list = append(raws, raw), append(list, s)
		}
		next = ""
		if t, ok := answer["next_page_token"]; ok {
			if err := json.Unmarshal(t, &next); err != nil {
				return nil, nil, "", fmt.Errorf("read the answer of %s: next_page_token: %w", c.base, err)
			}
		}
		// A page may be short, and even empty, while there is more.
		if next == "" || next == token || !p.all && len(list) > 0 {
			return raws, list, next, nil
		}
	}
}
