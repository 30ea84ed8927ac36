package cli

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) webhookCommand() *cobra.Command {
	return a.addClientFlags(group("webhook", "List webhook routes, send a webhook, or have one delivered again", "", a.webhookList(), a.webhookSend(), a.webhookRedeliver()))
}

func (a *app) webhookRedeliver() *cobra.Command {
	m := a.actions()
	m.path = "/v1/webhooks"
	return a.makingAgain(m, verb{
		use: "redeliver", path: "redeliver", short: "Give a webhook to its tool once more",
		long: `Give a webhook to its tool once more: make a new action of the one that it has become,
which has ended, with the same body and headers. Its metadata names the old one (_retry_of).`,
		example: "  orreryd webhook redeliver 01a1fd32-18f9-75b3-ae2f-17cbddc8f7a7 --wait",
	})
}

func (a *app) webhookSend() *cobra.Command {
	var data, secret, secretEnv, signature, contentType, delivery string
	cmd := &cobra.Command{
		Use:   "send ROUTE",
		Short: "Send a webhook, as the other side would",
		Long: `Send a webhook to a route of the configuration, as the other side would: signed
where a secret is given. The body is stored as it is, and becomes an action with the
id that is printed: at once or, where the daemon has strict_tick, at the next tick.`,
		Example: `  orreryd webhook send deploys --data '{"ref":"main"}' --secret-env DEPLOY_SECRET
  orreryd webhook send deploys --data @event.json --signature github --secret-env DEPLOY_SECRET
  echo '{"n":1}' | orreryd webhook send plain --data -`,
		Args: oneArg("ROUTE"),
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		if !config.PlainName(args[0]) {
			return usagef("%q is not a route: want 1 to 64 letters, digits, '-', '_' and '.'", text.Clip(args[0], 40))
		}
		body, err := a.readArgument("data", data)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("secret") && cmd.Flags().Changed("secret-env") {
			return usagef("give either --secret or --secret-env, not both")
		}
		key := secret
		if cmd.Flags().Changed("secret-env") {
			if key = a.env(secretEnv); key == "" {
				return usagef("--secret-env: the environment variable %q is not set", secretEnv)
			}
		}
		if key == "" && !cmd.Flags().Changed("signature") {
			signature = config.SignNone
		}
		header, err := sign(signature, key, cmp.Or(delivery, "msg_"+uuid.NewString()), body, time.Now())
		if err != nil {
			return err
		}
		header.Set("Content-Type", contentType)
		var answer struct {
			wire.WebhookAccepted
			wire.WebhookIgnored
		}
		path, err := url.JoinPath("/v1/webhooks", args[0])
		if err != nil {
			return err
		}
		raw, err := c.json(ctx, request{method: http.MethodPost, path: path, raw: body, header: header}, &answer)
		if err != nil {
			return err
		}
		if answer.Ignored != "" {
			return a.printLine(raw, "ignored: "+answer.Ignored)
		}
		return a.printLine(raw, fmt.Sprintf("webhook %s is stored; its action is %s", answer.WebhookID, answer.ActionID))
	})
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "the body: `TEXT`, @FILE, or - for stdin")
	f.StringVar(&secret, "secret", "", "sign with that `secret`; other users can see it, --secret-env hides it")
	f.StringVar(&secretEnv, "secret-env", "", "sign with the secret in that environment `variable`")
	f.StringVar(&signature, "signature", config.SignStandard, "`scheme` of the signature: standard, github or none")
	fixed(cmd, "signature", schemes)
	f.StringVar(&contentType, "content-type", "application/json", "content `type` of the body")
	f.StringVar(&delivery, "delivery", "", "`id` of the delivery (default a fresh one); the same one again is not stored again")
	return cmd
}

var schemes = []string{config.SignStandard, config.SignGitHub, config.SignNone}

// sign gives the headers that prove where a webhook comes from.
func sign(scheme, secret, id string, body []byte, now time.Time) (http.Header, error) {
	h := http.Header{}
	if err := checkOneOf("signature", scheme, schemes); err != nil {
		return nil, err
	}
	if scheme != config.SignNone && secret == "" {
		return nil, usagef("--signature %s needs --secret or --secret-env", scheme)
	}
	switch scheme {
	case config.SignNone:
	case config.SignStandard:
		wh, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, usagef("--secret: not base64, as --signature standard wants it (whsec_…)")
		}
		sig, err := wh.Sign(id, now, body)
		if err != nil {
			return nil, fmt.Errorf("sign the webhook: %w", err)
		}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("webhook-signature", sig)
	case config.SignGitHub:
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		h.Set("X-GitHub-Delivery", id)
	}
	return h, nil
}
