package page_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestTheFormOfAnActNamesWhatItIsDoneTo(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} })
	const scope = "?namespace=n&tenant=t"
	recurring := k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@daily","provider":"echo","action_type":"x","description":"Close <b>the</b> books"}`)
	action := k.make("/v1/actions", `{"tool_name":"hold","label":"Scan of the archive"}`)
	unnamed := k.make("/v1/actions", `{"tool_name":"hold","action_type":"x"}`)
	k.write("PUT", "/v1/queues/mail"+scope, `{}`)
	k.write("PUT", "/v1/jobs/close"+scope, `{"name":"Close of the day","pod_spec":{"containers":[{"name":"c"}]}}`)
	for path, want := range map[string]string{
		"/recurring/" + recurring + "/delete": `<h1>Delete <span class="kind">Close &lt;b&gt;the&lt;/b&gt; books</span></h1>`,
		"/actions/" + action + "/cancel":      `<h1>Cancel <span class="kind">Scan of the archive</span></h1>`,
		"/actions/" + unnamed + "/cancel":     `<h1>Cancel <span class="kind">hold x</span></h1>`,
		"/queues/mail/purge" + scope:          `<h1>Purge <span class="kind">mail</span></h1>`,
		"/jobs/close/delete" + scope:          `<h1>Delete <span class="kind">Close of the day</span></h1>`,
		"/schedules/new":                      `<h1>New recurring action</h1>`,
	} {
		assert.Contains(t, k.read(path), want, path)
	}
}
