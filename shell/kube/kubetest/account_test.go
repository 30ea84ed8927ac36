package kubetest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// account makes the service account of examples/kubernetes/rbac.yaml, and what it
// may do, in one namespace, and returns a token of it.
func account(t *testing.T, client kubernetes.Interface, ns string) string {
	t.Helper()
	text, err := os.ReadFile("../../../examples/kubernetes/rbac.yaml")
	require.NoError(t, err)
	kinds := map[string]int{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var meta metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &meta))
		kinds[meta.Kind]++
		switch meta.Kind {
		case "ServiceAccount":
			var o corev1.ServiceAccount
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o))
			o.Namespace = ns
			_, err = client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &o, metav1.CreateOptions{})
		case "Role":
			var o rbacv1.Role
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o))
			o.Namespace = ns
			_, err = client.RbacV1().Roles(ns).Create(t.Context(), &o, metav1.CreateOptions{})
		case "RoleBinding":
			var o rbacv1.RoleBinding
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o))
			o.Namespace, o.Subjects[0].Namespace = ns, ns
			_, err = client.RbacV1().RoleBindings(ns).Create(t.Context(), &o, metav1.CreateOptions{})
		}
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"ServiceAccount": 1, "Role": 1, "RoleBinding": 1}, kinds)
	return token(t, client, ns)
}

// token is a token of the account.
func token(t *testing.T, client kubernetes.Interface, ns string) string {
	t.Helper()
	day := int64(24 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	made, err := client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "orrery", request, metav1.CreateOptions{})
	require.NoError(t, err)
	return made.Status.Token
}

// clientOf is a client with a token, beside any proxy.
func clientOf(t *testing.T, c *kubetest.Cluster, token string) kubernetes.Interface {
	t.Helper()
	config := c.Config()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: config.CAFile}})
	require.NoError(t, err)
	return client
}

func TestTheServiceAccountOfTheManifestMayDoNothingButWhatRunsNeed(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	ns := namespace(t, c.Client())
	client := clientOf(t, c, account(t, c.Client(), ns))

	eventually(t, func() error { // the rights take a moment to be known
		_, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
		return err
	})
	_, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "secrets: %v", err)
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsForbidden(err), "a pod of its own: %v", err)
	_, err = client.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "another namespace: %v", err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "nodes: %v", err)
}
