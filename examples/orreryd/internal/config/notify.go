package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/mail"
	"github.com/orrery-go/orrery/shell/notify/relay"
)

// notifyConfig says how people are told.
type notifyConfig struct {
	Default  string                   `toml:"default,omitempty"`
	Channels map[string]channelConfig `toml:"channels,omitempty"`
}

// channelConfig is one [notify.channels.NAME]. Which keys it may have depends on
// its type.
type channelConfig struct {
	Type           string            `toml:"type"` // webhook, slack, mail, command, desktop, log
	URL            string            `toml:"url,omitempty" for:"webhook slack"`
	URLEnv         string            `toml:"url_env,omitempty" for:"webhook slack"`
	URLFile        string            `toml:"url_file,omitempty" for:"webhook slack"`
	Headers        map[string]string `toml:"headers,omitempty" for:"webhook"`
	Command        []string          `toml:"command,omitempty" for:"command"`
	Dir            string            `toml:"dir,omitempty" for:"command"`
	Env            map[string]string `toml:"env,omitempty" for:"command"`
	Host           string            `toml:"host,omitempty" for:"mail"`
	Port           int               `toml:"port,omitempty" for:"mail"`
	TLS            string            `toml:"tls,omitempty" for:"mail"` // starttls, implicit, none
	CAFile         string            `toml:"ca_file,omitempty" for:"mail"`
	Username       string            `toml:"username,omitempty" for:"mail"`
	PasswordEnv    string            `toml:"password_env,omitempty" for:"mail"`
	PasswordFile   string            `toml:"password_file,omitempty" for:"mail"`
	From           string            `toml:"from,omitempty" for:"mail"`
	To             []string          `toml:"to,omitempty" for:"mail"`
	Hello          string            `toml:"hello,omitempty" for:"mail"`
	TimeoutSeconds float64           `toml:"timeout_seconds,omitempty"`
	// Events are the events of the bus that it tells. Of these namespaces and tenants, and in these words, it
	// tells also alerts whose rules name it.
	Events     []string `toml:"events,omitempty"`
	Namespaces []string `toml:"namespaces,omitempty"`
	Tenants    []string `toml:"tenants,omitempty"`
	Title      string   `toml:"title,omitempty"`
	Text       string   `toml:"text,omitempty"`
}

// Types of [channelConfig].
const (
	channelWebhook = "webhook"
	channelSlack   = "slack"
	channelMail    = "mail"
	channelCommand = "command"
	channelDesktop = "desktop"
	ChannelLog     = "log"
)

var channelTypes = []string{channelWebhook, channelSlack, channelMail, channelCommand, channelDesktop, ChannelLog}

func (c *Config) validateNotify() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Notify.Channels)) {
		key := "notify.channels." + name
		if name == "" || len(name) > relay.MaxName {
			errs = append(errs, fmt.Errorf("notify.channels: the name %q has %d bytes: want 1 to %d", text.Clip(name, 40), len(name), relay.MaxName))
		}
		_, err := c.Notify.Channels[name].New(slog.New(slog.DiscardHandler))
		if !errors.Is(err, notify.ErrNoDesktop) { // the daemon's machine may have the program
			errs = append(errs, keyed(key, err))
		}
	}
	if d := c.Notify.Default; d != "" {
		if _, ok := c.Notify.Channels[d]; !ok {
			errs = append(errs, fmt.Errorf("notify.default: %q is not one of the channels: %s", text.Clip(d, 40), strings.Join(slices.Sorted(maps.Keys(c.Notify.Channels)), ", ")))
		}
	}
	return errors.Join(errs...)
}

// channelKeys are the keys that set the options of channels that their own check
// may refuse.
var channelKeys = strings.NewReplacer(
	"URL: ", "url: ", "Headers: ", "headers: ", "Argv: ", "command: ", "Dir: ", "dir: ", "Env: ", "env: ", "Timeout: ", "timeout_seconds: ",
	"Host: ", "host: ", "Port: ", "port: ", "Security: ", "tls: ", "Username: ", "username: ", "Password: ", "password_env: ", "From: ", "from: ", "Hello: ", "hello: ",
)

// New makes the channel, with what it tells.
func (c channelConfig) New(log *slog.Logger) (relay.Channel, error) {
	out := relay.Channel{Events: c.Events, Namespaces: c.Namespaces, Tenants: c.Tenants}
	if c.TimeoutSeconds != 0 {
		if err := checkSeconds("timeout_seconds", c.TimeoutSeconds, 0.001); err != nil {
			return out, err
		}
	}
	if !slices.Contains(channelTypes, c.Type) {
		return out, fmt.Errorf("type: %q is unknown: use one of %s", text.Clip(c.Type, 40), strings.Join(channelTypes, ", "))
	}
	if foreign := foreignKeys(c, "", "channel", c.Type); len(foreign) > 0 {
		return out, foreign[0]
	}
	if err := c.checkEvents(); err != nil {
		return out, err
	}
	var err error
	if out.Templates, err = c.templates(); err != nil {
		return out, err
	}
	out.Channel, err = c.channel(log)
	return out, err
}

// checkEvents checks what is told of events.
func (c channelConfig) checkEvents() error {
	if err := relay.CheckEvents(c.Events); err != nil {
		return fmt.Errorf("events%w", err)
	}
	for _, l := range []struct {
		key  string
		list []string
	}{{"events", c.Events}, {"namespaces", c.Namespaces}, {"tenants", c.Tenants}} {
		if l.list != nil && len(l.list) == 0 {
			return fmt.Errorf("%s: must not be empty: leave it out", l.key)
		}
	}
	return nil
}

// templates reads the templates, which must be right for any event.
func (c channelConfig) templates() (*notify.Templates, error) {
	title, words := notify.DefaultTitle, notify.DefaultText
	if c.Type == channelSlack {
		words = notify.SlackText
	}
	if c.Title != "" {
		title = c.Title
	}
	if c.Text != "" {
		words = c.Text
	}
	return notify.NewTemplates(title, words)
}

// channel makes the channel alone.
func (c channelConfig) channel(log *slog.Logger) (notify.Channel, error) {
	timeout := Seconds(c.TimeoutSeconds)
	switch c.Type {
	case channelWebhook, channelSlack:
		url, err := c.address()
		if err != nil {
			return nil, err
		}
		if c.Type == channelSlack {
			return orNil(notify.NewSlack(notify.SlackOptions{URL: url, Timeout: timeout}))
		}
		return orNil(notify.NewWebhook(notify.WebhookOptions{URL: url, Headers: c.Headers, Timeout: timeout}))
	case channelMail:
		return c.mail()
	case channelCommand:
		return orNil(notify.NewCommand(notify.CommandOptions{Argv: c.Command, Dir: c.Dir, Env: c.Env, Timeout: timeout}))
	case channelDesktop:
		return orNil(notify.NewDesktop())
	default:
		return notify.NewLog(log), nil
	}
}

// address gives the URL, which may be a secret.
func (c channelConfig) address() (string, error) {
	switch n := countGiven(c.URL, c.URLEnv, c.URLFile); {
	case n > 1:
		return "", fmt.Errorf("url: there are %d of url, url_env and url_file: give one", n)
	case n == 0:
		return "", errors.New("url: missing: give url, url_env or url_file")
	}
	url, _, err := readSecret(c.URL, c.URLEnv, c.URLFile, "url")
	return url, err
}

// mail makes the channel that sends e-mail.
func (c channelConfig) mail() (notify.Channel, error) {
	o := mail.Options{
		Host: c.Host, Port: c.Port, Security: mail.Security(c.TLS), Username: c.Username, From: c.From, To: c.To, Hello: c.Hello, Timeout: Seconds(c.TimeoutSeconds),
	}
	if n := countGiven(c.PasswordEnv, c.PasswordFile); n > 1 {
		return nil, fmt.Errorf("password_env: there are %d of password_env and password_file: give one", n)
	} else if n == 1 {
		var err error
		if o.Password, _, err = readSecret("", c.PasswordEnv, c.PasswordFile, "password"); err != nil {
			return nil, err
		}
	}
	if c.CAFile != "" {
		if o.Security == mail.None {
			return nil, fmt.Errorf("ca_file: is for a server that is reached by TLS: with tls = %q it has no use", mail.None)
		}
		roots, err := authorities(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	m, err := mail.New(o)
	if err != nil {
		return nil, errors.New(mailKeys(err.Error()))
	}
	return m, nil
}

// mailKeys is an error of package mail with the names of keys.
func mailKeys(text string) string {
	if rest, ok := strings.CutPrefix(text, "To"); ok && (strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, ": ")) {
		return "to" + rest
	}
	return channelKeys.Replace(text)
}

// orNil keeps a nil pointer from becoming a channel that is not nil.
func orNil[C notify.Channel](c C, err error) (notify.Channel, error) {
	if errors.Is(err, notify.ErrNoDesktop) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(channelKeys.Replace(err.Error()))
	}
	return c, nil
}
