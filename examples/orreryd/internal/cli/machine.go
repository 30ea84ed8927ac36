package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// machine is what the commands about one kind of machine share.
type machine[S any] struct {
	a        *app
	path     string // of the API: "/v1/pipelines"
	arg      string // what the argument is called: "ID"
	args     cobra.PositionalArgs
	scope    *scoped              // added to each request about a machine that has a name in a tenant; else nil
	complete cobra.CompletionFunc // completes the argument; nil: nothing does
	view     func(S) view
	id       func(S) string // what the argument names: its id, or its name
	ids      finder         // for a machine that an id names
	// more adds to what show prints for people what the API tells elsewhere; nil: nothing.
	more func(ctx context.Context, c *client, r request, s S, v *view) error

	// For machines that end:
	ended func(S) bool
	fails func(S) error // the failure of a machine that has ended; nil if it has none
}

// verb is a command about one machine.
type verb struct {
	use                  string // "cancel"; with the arguments if there are more than the machine's
	short, long, example string
	args                 cobra.PositionalArgs // default: those of the machine
	method               string               // default POST
	path                 string               // below the machine's; {} stands for the second argument
	makes                bool                 // it is about no machine yet
	fields               []field              // of the body; with body not set
	body                 func() (any, error)  // nil and without fields: there is none
	whole                resolver             // default: that of the machine's id
}

// of gives the path of a machine, or of something below it.
func (m machine[S]) of(name string, below ...string) string {
	parts := []string{m.path, url.PathEscape(name)}
	for _, p := range below {
		parts = append(parts, url.PathEscape(p))
	}
	return strings.Join(parts, "/")
}

// request makes a verb's request.
func (m machine[S]) request(v verb, args []string) (r request, err error) {
	r = request{method: cmp.Or(v.method, http.MethodPost), path: m.pathOf(v, args), query: m.scope.query()}
	switch {
	case v.body != nil:
		r.body, err = v.body()
	case v.fields != nil:
		r.fields, err = m.a.bodyOf(v.fields, args)
		r.body = r.fields
	}
	return r, err
}

// pathOf gives the path of a verb's request.
func (m machine[S]) pathOf(v verb, args []string) string {
	path := m.path
	if !v.makes {
		path = m.of(args[0])
	}
	if v.path != "" {
		path += "/" + strings.ReplaceAll(v.path, "{}", url.PathEscape(strings.Join(args[1:], "")))
	}
	return path
}

// verb is the command that sends a verb's request, and prints the machine that answers.
func (m machine[S]) verb(v verb) *cobra.Command { return m.sending(v, m.send) }

// verbs are the commands of several verbs.
func (m machine[S]) verbs(list ...verb) (commands []*cobra.Command) {
	for _, v := range list {
		commands = append(commands, m.verb(v))
	}
	return commands
}

// send sends a request that is answered with the machine, and prints it.
func (m machine[S]) send(ctx context.Context, c *client, r request, _ []string) error {
	var s S
	var revision string
	r.revision = &revision
	raw, err := c.json(ctx, r, &s)
	switch {
	case err != nil:
		return err
	case len(raw) == 0: // 204
		return m.a.printLine(nil, "gone")
	case m.a.form == formRevision:
		return m.a.printNames([]string{revision})
	case m.more == nil || r.method != http.MethodGet || m.a.json || m.a.form == formName:
		return m.print(raw, s)
	}
	v := m.viewOf(raw, s)
	if err := m.more(ctx, c, r, s, &v); err != nil {
		return err
	}
	return m.a.print(raw, v)
}

// print prints a machine in the form that is asked for.
func (m machine[S]) print(raw json.RawMessage, s S) error {
	if m.a.form == formName {
		return m.a.printNames([]string{m.id(s)})
	}
	return m.a.print(raw, m.viewOf(raw, s))
}

// viewOf shows a machine for people, and which set of files owns it.
func (m machine[S]) viewOf(raw json.RawMessage, s S) view {
	v := m.view(s)
	if by := declaredBy(raw); by != "" {
		v.fields = append(v.fields, [2]string{"declared", by})
	}
	return v
}

// declaredBy says which set of files owns what an answer shows; "" if none does.
func declaredBy(raw json.RawMessage) string {
	var of struct {
		Declared *wire.DeclaredBy `json:"declared"`
	}
	if json.Unmarshal(raw, &of) != nil || of.Declared == nil {
		return ""
	}
	by := "by " + of.Declared.Set
	if of.Declared.File != "" {
		by += " in " + of.Declared.File
	}
	return by
}

// saying is the command of a verb whose answer says less than a sentence does.
func (m machine[S]) saying(v verb, sentence func(args []string) string) *cobra.Command {
	return m.sending(v, func(ctx context.Context, c *client, r request, args []string) error {
		raw, err := c.json(ctx, r, nil)
		if err != nil {
			return err
		}
		return m.a.printLine(raw, sentence(args))
	})
}

// sender does something with a request of a verb: mostly it sends it, and prints the answer.
type sender func(ctx context.Context, c *client, r request, args []string) error

// resolver puts whole ids in the place of their beginnings.
type resolver func(ctx context.Context, c *client, args []string) ([]string, error)

// sending is the command that makes a verb's request and gives it to send.
func (m machine[S]) sending(v verb, send sender) *cobra.Command {
	if !strings.Contains(v.use, " ") {
		v.use += " " + m.arg
	}
	if v.args == nil {
		v.args = m.args
	}
	cmd := &cobra.Command{Use: v.use, Short: v.short, Long: v.long, Example: v.example, Args: v.args, ValidArgsFunction: m.complete}
	if v.whole == nil && !v.makes {
		v.whole = m.ids.arg(0)
	}
	var match string
	var takeOver bool
	if v.edits() {
		cmd.Flags().StringVar(&match, "if-match", "", "refuse it unless the `REVISION` is still the one that show -o revision gave")
		cmd.Flags().BoolVar(&takeOver, "take-over", false, takeOverUsage)
	}
	cmd.RunE = m.a.withClient(func(ctx context.Context, c *client, args []string) error {
		r, err := m.request(v, args) // refuses wrong flags before the daemon is asked
		if err != nil {
			return err
		}
		if !v.makes {
			m.ids.narrow(c, cmd)
		}
		r.header = takingOver(takeOver)
		if match != "" {
			r.header.Set("If-Match", `"`+strings.Trim(match, `"`)+`"`) // an answer's ETag has its quotation marks
		}
		if v.whole == nil {
			return send(ctx, c, r, args)
		}
		args, err = v.whole(ctx, c, args)
		if err != nil {
			return err
		}
		r.path = m.pathOf(v, args)
		return send(ctx, c, r, args)
	})
	return addFlags(cmd, v.fields)
}

const takeOverUsage = "change it although a set of files declares it; it belongs to no set any more then"

// takingOver gives the headers of an edit.
func takingOver(takeOver bool) http.Header {
	h := http.Header{}
	if takeOver {
		h.Set("Orrery-Take-Over", "true")
	}
	return h
}

// edits reports whether the verb changes or deletes a definition, as far as it is still the one that was read.
func (v verb) edits() bool {
	return (v.method == http.MethodPut || v.method == http.MethodDelete) && v.path == "" && !v.makes
}

// show is the command that shows a machine.
func (m machine[S]) show(short string) *cobra.Command {
	forms := []string{formWide, formJSON, formName}
	if hasRevision(m.path) {
		forms = append(forms, formRevision)
	}
	return m.a.addOutput(m.verb(verb{use: "show", short: short, method: http.MethodGet}), forms...)
}

// hasRevision reports whether what stands below a path of the API has a definition that is edited.
func hasRevision(path string) bool {
	switch path {
	case "/v1/recurring", "/v1/queues", "/v1/workers", semaphoresPath, "/v1/calendars", "/v1/jobs", subscribersPath:
		return true
	}
	return false
}

// post is the command of a verb that has no body.
func (m machine[S]) post(name, path, short string) *cobra.Command {
	return m.verb(verb{use: name, short: short, path: path})
}

// reasoned is the command of a verb that takes a reason.
func (m machine[S]) reasoned(name, short string) *cobra.Command {
	return m.verb(verb{use: name, short: short, path: name, fields: []field{reasonField()}})
}

// creating is the command that makes a machine, and prints it; with --wait not before it has
// ended, after a line that says what is made. complete adds to the body what no flag alone says.
func (m machine[S]) creating(v verb, s *scoped, made string, complete sender) *cobra.Command {
	var wait bool
	v.makes = true
	cmd := m.sending(v, func(ctx context.Context, c *client, r request, args []string) error {
		r.fields["namespace"], r.fields["tenant"] = s.namespace, s.tenant
		if err := complete(ctx, c, r, args); err != nil {
			return err
		}
		if !wait {
			return m.send(ctx, c, r, args)
		}
		var created S
		if _, err := c.json(ctx, r, &created); err != nil {
			return err
		}
		text.Sayf(m.a.err, made, m.id(created))
		return m.awaitEnd(ctx, c, m.id(created), true)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return s.addFlags(m.a, cmd)
}

// addNothing adds nothing to a body.
func addNothing(context.Context, *client, request, []string) error { return nil }

// wait is the command that waits for the end of a machine.
func (m machine[S]) wait(short string) *cobra.Command {
	return m.sending(verb{use: "wait", short: short}, func(ctx context.Context, c *client, _ request, args []string) error {
		return m.awaitEnd(ctx, c, args[0], false)
	})
}

// waitStep is how many seconds one request waits for the end of something.
const waitStep = "50"

// awaitEnd prints a machine once it has ended; its failure is one of this program too.
// known: the daemon has answered before.
func (m machine[S]) awaitEnd(ctx context.Context, c *client, id string, known bool) error {
	for ; ; known = true {
		var s S
		raw, err := m.look(ctx, c, id, url.Values{"wait_seconds": {waitStep}}, &s, known)
		if err != nil {
			return err
		}
		if m.ended(s) {
			if err := m.a.print(raw, m.view(s)); err != nil {
				return err
			}
			return m.fails(s)
		}
	}
}

// restartTime is how long a daemon that has answered before may be away: somebody
// restarts it, and what is waited for goes on then.
const restartTime = time.Minute

// look asks for a machine; if the daemon is known, also while it is away.
func (m machine[S]) look(ctx context.Context, c *client, id string, q url.Values, s *S, known bool) (json.RawMessage, error) {
	end := time.Now().Add(restartTime)
	for {
		raw, err := c.json(ctx, request{method: http.MethodGet, path: m.of(id), query: q}, s)
		if !known || !isNoDaemon(err) || time.Now().After(end) {
			return raw, err
		}
		if pause(ctx, watchEvery) != nil {
			return raw, err
		}
	}
}

// pause waits; the error is why ctx has ended before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// scoped are the flags of commands about what has a name in a tenant.
type scoped struct{ namespace, tenant string }

// query is what each request carries; nothing if the kind has no scope.
func (s *scoped) query() url.Values {
	if s == nil {
		return url.Values{}
	}
	return url.Values{"namespace": {s.namespace}, "tenant": {s.tenant}}
}

// addFlags adds the flags to a command and all below it.
func (s *scoped) addFlags(a *app, cmd *cobra.Command) *cobra.Command {
	f, home := cmd.PersistentFlags(), a.home()
	f.StringVar(&s.namespace, "namespace", home.namespace, "`namespace` it belongs to, or $ORRERY_NAMESPACE")
	f.StringVar(&s.tenant, "tenant", home.tenant, "`tenant` it belongs to, or $ORRERY_TENANT")
	return cmd
}

// ownScope marks a command that has flags --namespace and --tenant of its own.
const ownScope = "own scope"

// withScope adds the flags to all commands but those that have their own, such as list.
func (a *app) withScope(s *scoped, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		if c.Name() != "list" && c.Annotations[ownScope] == "" {
			s.addFlags(a, c)
		}
	}
	return commands
}
