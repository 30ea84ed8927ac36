package httpapi

import (
	"net/http"
	"strings"
)

// ofProxies are headers that proxies add, and neither browsers nor other clients do.
var ofProxies = map[string]bool{
	"Forwarded": true, "Via": true, "X-Forwarded": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Original-Forwarded-For": true, "X-Envoy-External-Address": true,
	"X-Cluster-Client-Ip": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Cf-Ray": true, "Cdn-Loop": true, "Fly-Client-Ip": true, "Fastly-Client-Ip": true,
	"X-Scheme": true, "X-Original-Host": true, "X-Original-Url": true, "Tailscale-User-Login": true,
}

// throughNoProxy refuses a request that came through a proxy. While no token is configured whoever is on this machine may do
// everything, and a proxy on it would make administrators of all who reach the proxy.
func throughNoProxy(r *http.Request) error {
	if sign := signOfProxy(r); sign != "" {
		return failf(http.StatusForbidden, "%s: the request comes through a proxy, and no token is configured: everybody who reaches the proxy would be an administrator; configure a token", sign)
	}
	return nil
}

// signOfProxy names what shows that a request comes through a proxy; "" if nothing does.
func signOfProxy(r *http.Request) string {
	if !r.ProtoAtLeast(1, 1) { // no browser speaks it; nginx does, and unless it is configured adds no header
		return "HTTP/1.0"
	}
	for name := range r.Header {
		if ofProxies[name] || strings.HasPrefix(name, "X-Forwarded-") {
			return name
		}
	}
	return ""
}
