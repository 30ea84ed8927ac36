package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func TestEachTenantHasAFolderOfItsOwnUnderTheWorkspace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	r, err := New(dir, false, nil)
	require.NoError(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	for scope, want := range map[[2]string]string{
		{"default", "default"}: "default/default", {"shop", "acme"}: "shop/acme", {"shop", "Acme"}: "shop/%41cme",
		{"..", "."}: "%2e%2e/%2e", {"a/b", "../../etc"}: "a%2fb/%2e.%2f..%2fetc", {".git", "a.b"}: "%2egit/a.b", {"a%2fb", "x\x00"}: "a%252fb/x%00",
		{"é", "a."}: "%c3%a9/a%2e",
	} {
		got, err := r.Of(scope[0], scope[1])
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(dir, filepath.FromSlash(want)), got)
		assert.DirExists(t, got)
	}
	shared, err := New(dir, true, nil)
	require.NoError(t, err)
	got, err := shared.Of("shop", "acme")
	require.NoError(t, err)
	assert.Equal(t, dir, got)
}

func TestNoTwoTenantsHaveOneFolderAndNoneIsElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[aA.%/-]{0,8}`), rapid.StringMatching(`[aA]{250,255}`)), 2, 2, rapid.ID[string]).Draw(t, "names")
		a, b := folder(names[0]), folder(names[1])
		if strings.EqualFold(a, b) {
			t.Fatalf("%q and %q are both %q", names[0], names[1], a)
		}
		for _, f := range []string{a, b} {
			if !filepath.IsLocal(f) || filepath.Base(f) != f || f == "." || len(f) > 255 {
				t.Fatalf("%q is no name of a folder", f)
			}
		}
	})
}

func TestALinkIsNoRootOfATenant(t *testing.T) {
	dir := t.TempDir()
	r, err := New(dir, false, nil)
	require.NoError(t, err)
	other, err := r.Of("shop", "other")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(other, filepath.Join(r.Dir(), "shop", "acme")))
	_, err = r.Of("shop", "acme")
	require.ErrorContains(t, err, "is no folder, or a link: the tenant shop/acme needs one there")
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(r.Dir(), "bank")))
	_, err = r.Of("bank", "acme")
	require.Error(t, err)
}

func TestRepositoriesOfASharedWorkspaceAreFoundOnceTenantsHaveFolders(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"app/.git", "bare.git/refs", "shop/acme/site/.git", "notes"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bare.git/HEAD"), nil, 0o600))
	for shared, want := range map[bool][]string{true: nil, false: {"app", "bare.git"}} {
		roots, err := New(dir, shared, nil)
		require.NoError(t, err)
		found, err := roots.Strays()
		require.NoError(t, err)
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		assert.Equal(t, want, found)
	}
}
