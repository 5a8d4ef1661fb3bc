# files.sh: --copy-in, --copy-out, --bind.
# Sourced by run.

mkdir -p tree/sub
echo one >tree/sub/file
check "--copy-in of a directory" gives 0 one 'mooncage run --copy-in tree -- cat tree/sub/file'
check "--copy-in under another name" gives 0 one 'mooncage run --copy-in tree/sub/file:x/y -- cat x/y'
check "--copy-in of nothing" gives 125 '' 'mooncage run --copy-in no-such-file -- true' no-such-file
ln -sf /etc/passwd tree/link
check "--copy-in refuses a link" gives '*' '' '! mooncage run --copy-in tree -- true' link
rm tree/link
check "--copy-out" gives 0 made 'mooncage run --copy-out made -- sh -c "echo made > made" && cat made'
mkdir out
check "--copy-out under another name" gives 0 made \
  'mooncage run --copy-out made:out/made -- sh -c "echo made > made" && cat out/made'
check "--copy-out of nothing" gives 125 '' 'mooncage run --copy-out nothing -- true' nothing
check "--bind is live and read-only" gives 0 one \
  "mooncage run --bind \$PWD/tree:/data -- sh -c 'cat /data/sub/file; ! echo x > /data/new'"
check "nothing was written" test ! -e tree/new
chmod o+rwx tree # as root, what runs inside is another user
check "--bind rw" gives 0 '' "mooncage run --bind \$PWD/tree:/data:rw -- sh -c 'echo x > /data/new'"
check "was written" test -e tree/new
check "--bind to a place below /usr that is not there" gives 2 '' \
  "mkdir -p \$PWD/tree && mooncage run --bind \$PWD/tree:/usr/none-such -- true" 'the host has no such place'
check "and none is made" gives 1 '' 'test -e /usr/none-such'
check "--bind of nothing" gives 125 '' 'mooncage run --bind /no/such:/data -- true' '/no/such'

cat >manifest.lua <<'LUA'
return {
  files = { ["etc/answer"] = "42\n" },
  directories = { "empty" },
  environment = { NAME = "value", TOKEN = { secret = secret "SECRET_HERE" } },
}
LUA
check "--manifest" gives 0 $'42\nvalue s3cret' \
  "SECRET_HERE=s3cret mooncage run --manifest manifest.lua -- sh -c 'cat etc/answer; test -d empty; echo \$NAME \$TOKEN'"
echo 'return { fiels = {} }' >wrong.lua
check "an unknown key in it" gives 2 '' 'mooncage run --manifest wrong.lua -- true' 'files'
check "a manifest that is missing" gives 125 '' 'mooncage run --manifest none.lua -- true' 'the manifest: none.lua'
check "--copy-in to a place outside of the workspace" gives 2 '' \
  'mooncage run --copy-in tree/sub/file:../../etc/x -- true' 'workspace'
check "--copy-out from a place outside of it" gives 2 '' \
  'mooncage run --copy-out ../../etc/passwd:x -- true' 'workspace'
