---@meta mooncage
-- types.lua: the module's types for editors (LuaLS). Nothing loads this file.
--
-- "Waits" means: in a task the task is suspended and others run; outside any task the call turns the
-- loop itself. It cannot be done inside sort, gsub, require, a plain coroutine of a task, or a
-- callback such as on_stdout: that raises, before anything has begun.
--
-- What the world does comes back as nil and an error table. What the programmer did wrong (a wrong
-- type, an unknown option, NUL in an argument) raises, with the caller's line.

---@class mooncage
local mooncage = {}

---@alias mooncage.Code "invalid"|"unsupported"|"unenforceable"|"tool_not_allowed"|"command_denied"|"no_candidate"|"not_found"|"conflict"|"quota"|"timeout"|"canceled"|"unavailable"|"protocol"|"unauthorized"|"snapshot_unsupported"|"snapshot_mismatch"|"archive_unsafe"|"audit_failed"|"nomem"|"internal"

---What went wrong. tostring(err) reads "jail: working directory x: No such file or directory".
---@class mooncage.Error
---@field code mooncage.Code stable: branch on this, never on the message
---@field message string one line, lower case
---@field fix string? what to do about it
---@field backend string?
---@field retryable boolean the same call, repeated as is, may succeed
---@field cause mooncage.Error?
---@field traceback string? where a task threw it

---A value that is handed on and never shown: tostring and JSON give "[redacted]".
---@class mooncage.Secret: userdata

---Plain data; made by mooncage.jail{}, mooncage.subprocess{} …, which check the options.
---@class mooncage.Candidate
---@field id string
---@field options table
---@field name string? what explanations call it; the backend's id unless given
---@field cost { usd_per_minute: number }? what it costs, over what its backend says; 0: free
---@field tags string[]? for selectors
---@field max_sessions integer? at once, of this name
---@field pool { size: integer }?

---What a sandbox must be. What is not said is no matter.
---@class mooncage.Requirements
---@field network boolean? true: commands must reach the network; false: they must run with it denied
---@field persistent boolean? true: the workspace must outlive the session without a store
---@field capabilities string[]? names that the candidate must have all of
---@field min_isolation "none"|"namespace"|"container"|"gvisor"|"vm"|nil in order of strength
---@field memory_mb number?
---@field cpu_count number?
---@field pty boolean? true: terminals are needed
---@field region string?
---@field max_usd_per_minute number? an unpriced candidate does not meet it
---@field backends string[]? only these
---@field not_backends string[]? none of these

---What is known of a candidate; what a selector is given. Nothing in it can be set; its tables are
---copies for one call.
---@class mooncage.CandidateFacts
---@field name string
---@field backend string
---@field family "local"|"hosted"
---@field isolation "none"|"namespace"|"container"|"gvisor"|"vm"
---@field cost { usd_per_minute: number? } nil: unpriced; 0: free
---@field persistent boolean
---@field capabilities table<string, true> network, network_denied, pty, snapshot …
---@field tags string[]
---@field region string?
---@field memory_mb number? the most it gives, where that is known
---@field cpu_count number?
---@field sessions integer? that run now
---@field max_sessions integer?
---@field health "ok"|"failing"|"unknown"|nil by the last attempt of the past minute
---@field latency_s number? what making a sandbox took, the recent ones above all
---@field satisfies (fun(self: mooncage.CandidateFacts, requirements: mooncage.Requirements): boolean, string)? does it meet them, and why or why not

---What was said of each candidate, in the order given; tostring makes one line of it.
---@class mooncage.Explanation
---@field [integer] { name: string, backend: string, fits: boolean, reason: string } of mooncage.select with all its facts
---@field order integer[]? of mooncage.select: numbers of the candidates, in the order to be tried
---@field why string? of mooncage.select: the selector's own reason

---Chooses: returns a candidate, or a list of them in the order to be tried, or nil and why. It decides
---at once, from what it is given; it must not wait.
---@alias mooncage.Selector fun(candidates: mooncage.CandidateFacts[], requirements: mooncage.Requirements, context: table): (mooncage.CandidateFacts|mooncage.CandidateFacts[])?, (string|mooncage.Explanation)?

---@class mooncage.Limits
---@field memory_mb number?
---@field cpu_count number?
---@field pid_limit integer?
---@field disk_mb number?
---@field open_files integer?
---@field wall_s number? the whole session
---@field exec_s number? one command, where it has no timeout of its own
---@field output_mb number? what one command may write

---Unknown keys and wrong types are the error `invalid`.
---@class mooncage.Config
---@field backend mooncage.Candidate|string|nil default: "jail"
---@field candidates (mooncage.Candidate|string)[]? what may be chosen; instead of backend
---@field selector mooncage.Selector|"cheapest_first"|"in_order"|nil who chooses; default: cheapest_first
---@field requirements mooncage.Requirements?
---@field failover boolean? try the next candidate when one cannot be made; default: true
---@field limits mooncage.Limits?
---@field network "none"|"open"|"host"|mooncage.Network|nil default: none
---@field enforcement "required"|"best_effort"|nil
---@field manifest table? what is in the workspace
---@field environment table<string, string|mooncage.Secret>?
---@field working_directory string?
---@field user string?
---@field labels table<string, string>?
---@field tenant string? letters, digits, - and _, at most 64
---@field tenants (fun(tenant: string?, config: table, context: table): mooncage.Overrides?, string?)? what a tenant gets; nil and a reason denies. Decides at once
---@field run_id string?
---@field ttl_s number?
---@field pool { size: integer }?
---@field capture_live_cost boolean? ask the provider at the end what the session has cost; default: false
---@field project string? a directory of the host whose copy-on-write view is the workspace
---@field snapshot_store mooncage.Store? where snapshots are kept; default: mooncage.store.file{}
---@field snapshot mooncage.SnapshotConfig? what the workspace begins with, and is saved as
---@field store_prefix string? names the part of the store that the session sees, instead of its tenant's
---@field on_log fun(level: "debug"|"info"|"warning"|"error", message: string)? must not wait
---@field audit mooncage.AuditSink|mooncage.AuditSink[]|false|nil where events go: a file a user and month, unless told otherwise; false: no log
---@field allowed_tools string[]? which tools may be used; default: all. A command counts as "shell"
---@field tools table<string, mooncage.Tool>? tools of your own, for session:call_tool
---@field guardrail (fun(command: mooncage.Command, context: table): boolean|"ask"|{ rewrite: string[] }|{ warn: string }, string?, string?)? may this command run: an answer, why, by which rule. Must not wait; all but a plain yes is a no
---@field on_ask (fun(command: mooncage.Command, context: table, reason: string?): boolean, string?)? who is asked when the guardrail says "ask"; may wait. Without it that is a no
---@field hooks mooncage.Hooks? functions that are told what happens
---@field hook_timeout_s number? how long one hook may take; 30
---@field context table? goes to hooks as it is, with tenant, run_id and labels beside it
---@field agent any goes to hooks as it is

---Told what happens, able to wait, unable to change it. Each may be left out. One that throws, or
---takes longer than hook_timeout_s, is logged, and everything goes on.
---@class mooncage.Hooks
---@field on_sandbox_start fun(context: table, agent: any, session: mooncage.Session)? the session is open; open() has not returned
---@field on_sandbox_snapshot fun(context: table, agent: any, session: mooncage.Session, metadata: mooncage.Snapshot)? a snapshot was saved
---@field on_sandbox_stop fun(context: table, agent: any, session: mooncage.Session, usage: table)? nothing of it lives; close() has not returned
---@field on_sandbox_exec_start fun(context: table, agent: any, command: mooncage.Command, exec: mooncage.Exec)? it was allowed, and does not run yet. Not for a PTY
---@field on_sandbox_exec_end fun(context: table, agent: any, command: mooncage.Command, result: mooncage.Result?, exec: mooncage.Exec)? exactly once for each start

---Which command a hook is told of.
---@class mooncage.Exec
---@field id string as in the audit log
---@field session mooncage.Session
---@field error mooncage.Error? why there is no result

---What a guardrail and hooks are told of a command.
---@class mooncage.Command
---@field argv string[]? or
---@field shell string? text for /bin/sh -c
---@field words string[]? argv; of shell text its words when it is one simple command, else nil
---@field commands mooncage.Simple[]? every simple command in it, those that programs like env run too
---@field unclear string? why there are no commands: the text is not understood
---@field tool string what it counts as
---@field cwd string?
---@field env_names string[] of the variables it is given
---@field has_stdin boolean
---@field pty boolean

---A tool runs on the host; its commands run in the session that it is given. With sandbox = false it is
---given none, and the log says so.
---@alias mooncage.Tool fun(args: table, session: mooncage.Session): ...|{ run: fun(args: table): ..., sandbox: boolean? }

---What a tenant gets: each can only tighten the config.
---@class mooncage.Overrides
---@field limits mooncage.Limits? none looser than the config's, or than the defaults
---@field network "none"|"open"|"host"|mooncage.Network|nil
---@field requirements table? raise min_isolation, lower max_usd_per_minute, add others
---@field candidates (string|mooncage.Candidate)[]? names of the config's, or others that are no looser
---@field credentials table<string, table>? options of candidates, by their name or backend, no looser
---@field namespace string? where a backend has namespaces
---@field enforcement "required"|nil
---@field allowed_tools string[]? a selection of the config's
---@field environment table<string, string|mooncage.Secret>?
---@field labels table<string, string>?
---@field audit table? its log takes the place of the config's
---@field store_prefix string? the part of the snapshot store that it sees, instead of its own
---@field quota { sessions: integer?, usd: number?, minutes: number?, per: "day"|"month"|"ever"|nil }? of all its sessions

---Where audit events go. Plain data; made by mooncage.audit.jsonl{}, .callback(fn) and .stderr().
---@class mooncage.AuditSink
---@field type "jsonl"|"callback"|"stderr"

---@class mooncage.AuditFile
---@field path string? a file
---@field dir string? a directory, with a file for each user and month; $XDG_STATE_HOME/mooncage/audit where neither is given
---@field own boolean? in the directory: a file of this engine alone, for one that lives long
---@field durable boolean? each line is on the disk, not only with the kernel, before what it is about begins
---@field rotate_mb number? a file of this size is put aside, and the chain goes on in a new one
---@field hmac_key string|mooncage.Secret|nil without it nobody can write a line that verifies

---mooncage.audit: the places that audit events can go to.
---@class mooncage.Audit
local audit = {}

---Lines in a file, each chained to the one before.
---@param options mooncage.AuditFile?
---@return mooncage.AuditSink
function audit.jsonl(options) end

---Calls a function with each event, and with its line. It runs as a task and may wait; what it is told
---of waits for it, and does not happen when it throws or takes longer than hook_timeout_s. It must not
---run commands itself: they would be events, too.
---@param fn fun(event: table, line: string)
---@return mooncage.AuditSink
function audit.callback(fn) end

---Lines on standard error.
---@return mooncage.AuditSink
function audit.stderr() end

---What a session begins with and leaves; docs/snapshots.md says how patterns are matched.
---@class mooncage.SnapshotConfig
---@field id string? letters, digits, '.', '_' and '-', at most 128
---@field restore "if_exists"|"required"|"never"|nil when it opens; default: if_exists
---@field save "on_success"|"always"|"never"|nil when it closes; default: on_success
---@field on_mismatch "error"|"warn"|"ignore"|nil it was made with another manifest; default: error
---@field exclude string[]? paths in the workspace that are left out, with * and a leading **/
---@field max_mb number? one that takes more is not saved; default: 8192

---What is known of a snapshot.
---@class mooncage.Snapshot
---@field snapshot_id string
---@field version integer counts up with each save of the id
---@field created_at number seconds since 1970
---@field size_bytes integer of its data
---@field sha256 string of its data
---@field format "tar"
---@field file_count integer? all but directories
---@field manifest_hash string?
---@field backend string?
---@field labels table<string, string>?
---@field tenant string?
---@field parent string? "ID@VERSION" that the session had been restored from, or saved as, before
---@field damaged string? of a list: why it cannot be used; then only its id is known

---A place for snapshots: for the config key `snapshot_store`, and to be asked without a session. All its
---methods wait. Where an id is wanted, metadata will do.
---@class mooncage.Store
---@field type "file"
---@field dir string?
local Store = {}

---Saves a session's workspace, or bytes of your own: a string, a function that returns chunks and nil at
---the end, or { from = path }.
---@param options { id: string, session: mooncage.Session?, exclude: string[]?, data: string|(fun(): string?)|{ from: string }|nil, manifest_hash: string?, labels: table<string, string>? }
---@return mooncage.Snapshot? metadata, mooncage.Error? err
function Store:save(options) end

---Its data, verified. With `to`, a path (written as session:download does it) or a function that takes chunks,
---the metadata comes first, alone.
---@param id string
---@param to string|(fun(chunk: string): boolean?)|nil
---@return string|mooncage.Snapshot|nil data, mooncage.Snapshot|mooncage.Error|nil metadata
function Store:load(id, to) end

---@param id string
---@return mooncage.Snapshot? metadata, mooncage.Error? err
function Store:show(id) end

---@param id string
---@return boolean? exists, mooncage.Error? err
function Store:exists(id) end

---@param id string
---@return true? ok, mooncage.Error? err
function Store:delete(id) end

---Those whose id begins so, in order of ids.
---@param prefix string?
---@return mooncage.Snapshot[]? list, mooncage.Error? err
function Store:list(prefix) end

---Removes what saves that were cut short have left.
---@param options { dry_run: boolean? }?
---@return { removed: string[] }? report, mooncage.Error? err
function Store:gc(options) end

---The same store, in the part of a tenant, or in one that a prefix names. Not for `snapshot_store`.
---@param part { tenant: string?, store_prefix: string? }
---@return mooncage.Store
function Store:of(part) end

---mooncage.store: the places that snapshots can be kept in. s3 and gcs raise `unsupported`.
---@class mooncage.Stores
local store = {}

---A directory of this host. With a key nobody who has not got it can make a snapshot that verifies.
---@param options { dir: string?, hmac_key: string|mooncage.Secret|nil }?
---@return mooncage.Store
function store.file(options) end

---What a sandbox may reach. A rule is "HOST[:PORTS]" or a table; see docs/network.md.
---@class mooncage.Network
---@field default "deny"|"allow"|nil what holds where no rule does; default: deny
---@field allow (string|table)[]?
---@field deny (string|table)[]? these win
---@field connections integer? at once; default 64
---@field idle_s number? a connection on which nothing moves for so long is ended; default 60
---@field bytes_per_s integer? of all connections together, both ways
---@field bytes_total integer?
---@field within mooncage.Network|"open"|"none"|nil another one, which has to allow as well
---@field ca_file string? certificates to verify servers by, besides this system's, where TLS ends at the engine
---@field proxy string|false|nil what connections leave through; false: none; default: as the environment says

---@class mooncage.NetworkEvent
---@field at number seconds since 1970
---@field allowed boolean
---@field protocol "tcp"|"udp"|"dns"
---@field name string? that was asked for
---@field address string? of an allowed one: that was dialled
---@field port integer?
---@field direction "in"|nil to a port that was exposed: `port` is the one inside; nil: out of the sandbox
---@field proxy string? that it left through
---@field rule string? that decided
---@field reason string? why it was refused
---@field open boolean? it is still open
---@field bytes_in integer? bytes into the sandbox
---@field bytes_out integer? and out of it
---@field duration_s number?
---@field ended "finished"|"reset"|"idle"|"spent"|"cut"|nil how it ended
---@field error string?

---@class mooncage.Usage
---@field started_at number seconds since 1970
---@field ended_at number? once it is closed
---@field wall_clock_s number
---@field exec_count integer commands
---@field exec_s number how long they took, together
---@field cpu_s number
---@field max_rss_mb number of the largest command
---@field memory_peak_mb number? of the whole sandbox, where a cgroup counts it
---@field net_in_bytes integer? with a gateway: what connections brought into it
---@field net_out_bytes integer? and out of it
---@field snapshot_bytes integer? of all snapshots that were saved of it
---@field rate_used number? dollars a minute, where the candidate has a price
---@field estimated_usd number?
---@field cost_source "candidate"|"backend"|nil where the price is from

---@class mooncage.ExecOptions
---@field cwd string? relative to the session's directory
---@field env table<string, string|number|mooncage.Secret>? over the session's
---@field stdin string|(fun(): string?)|nil all of it; or a function that returns chunks, nil at the end. It runs in a task of its own and may wait
---@field timeout number? seconds; then the command's whole tree is killed, and that is a result
---@field user string?
---@field pty boolean|{ cols: integer, rows: integer }|nil stdout carries the terminal
---@field on_stdout fun(bytes: string)? called as output comes; must not wait; what it throws cancels the command
---@field on_stderr fun(bytes: string)?
---@field max_output integer? bytes kept of each stream, head and tail; default 1 MiB; 0: none
---@field tool string? what it counts as for allowed_tools; default: the tool that runs it, else "shell"
---@field detach boolean? return once it runs; it lives on until the session ends

---@class mooncage.Result
---@field ok boolean exit_code == 0
---@field exit_code integer? nil when a signal ended it; 127 with not_found
---@field signal string? "SIGTERM"
---@field start_error string? why the program could not be started ("Permission denied"): exit_code is 126 then, or 127
---@field stdout string
---@field stderr string
---@field stdout_bytes integer written by the command, kept or not
---@field stderr_bytes integer
---@field stdout_truncated boolean
---@field stderr_truncated boolean
---@field timed_out boolean
---@field oom_killed boolean
---@field not_found boolean
---@field detached boolean? it was started with detach; pid tells it
---@field pid integer as seen from inside
---@field duration number seconds
---@field cpu_s number
---@field max_rss_mb number

---@class mooncage.FileInfo
---@field name string
---@field type "file"|"directory"|"symlink"|"fifo"|"socket"|"char"|"block"
---@field target string? of a symlink
---@field size integer
---@field mode integer permission bits
---@field uid integer
---@field gid integer
---@field mtime number seconds since 1970

---Opens a sandbox. Waits. Close it with session:close().
---@param config mooncage.Config?
---@return mooncage.Session? session, mooncage.Error? err
function mooncage.open(config) end

---Opens a sandbox, calls `fn(session)`, closes it whatever happens. Waits. Throws on what fn throws.
---@param config mooncage.Config?
---@param fn fun(session: mooncage.Session): ...
---@return any ... what fn returned; or nil, err when nothing could be opened
function mooncage.with(config, fn) end

---The words that /bin/sh would make of a text that is one simple command of plain words: bytes, which need not be UTF-8. Without quotes, characters beyond ASCII make no plain word.
---@param text string
---@return string[]? words, string? why it is none
function mooncage.words(text) end

---A simple command in a text for the shell, or one that another program is told to run.
---@class mooncage.Simple
---@field words string[] its program and arguments; none where it only sets variables or redirects
---@field put_in { word: integer, why: string, many: boolean, no_option: boolean, prefix: string }[]? words that are known at run time alone: which, what is put in, whether it may become none or several, that it cannot become an option, and what it begins with
---@field at integer where it stands in the text, in bytes from 1
---@field assigns string[]? names of variables that it sets
---@field redirects { op: string, to: string, why: string? }[]? why: the file's name is put in at run time
---@field fed boolean? its standard input comes from this text: a pipe, a file, a here-document
---@field inside integer? the place in the list of the command that runs it
---@field via string? the program that does
---@field only_runs boolean? it does nothing but run the commands inside
---@field unclear string? it runs or does something that cannot be told, and why
---@field untold { why: string, word: integer?, upto: integer?, code: boolean? }[]? all that cannot be told of it: why, by which word, so many bytes of that, and that it is code for an interpreter

---Every simple command in a text for the shell, or that a list of arguments comes to: in lists,
---pipelines, substitutions, and where programs like env, xargs and sh -c run others.
---@param command string|string[]
---@return mooncage.Simple[]? commands, string? why it is not understood
function mooncage.commands(command) end

---Takes up a session that a keeper holds, from the text of session:state(). Waits. Of a config it takes
---what stands by a session: guardrail, on_ask, hooks, hook_timeout_s, tools, allowed_tools, context and
---agent. One that was made with a guardrail runs nothing without.
---@param state string
---@param config mooncage.Config?
---@return mooncage.Session? session, mooncage.Error? err
function mooncage.resume(state, config) end

---Starts a task; it first runs when the caller waits or ends. One that throws and is never joined
---is said in the log, and makes a script's exit status 1.
---@param fn fun(...): ...
---@param ... any its arguments
---@return mooncage.Task
function mooncage.spawn(fn, ...) end

---Waits for all: the first value of each, in order. The first that throws, or returns nil and an
---error, has the others canceled; when they have ended, nil and that error.
---@param tasks mooncage.Task[]
---@return any[]? results, mooncage.Error? err
function mooncage.join(tasks) end

---Waits.
---@param seconds number
---@return true? ok, mooncage.Error? err
function mooncage.sleep(seconds) end

---Seconds of a clock that only goes forward: for measuring.
---@return number
function mooncage.now() end

---For embedded hosts: runs fn as a task and turns the loop until it is done. Throws what it threw.
---@param fn fun(...): ...
---@param ... any
---@return any ...
function mooncage.run(fn, ...) end

---A value that is handed on and never shown. It is the text itself, not, as with `secret "NAME"` in a
---configuration, the name of a variable: mooncage.secret(assert(os.getenv "NAME")).
---@param value string
---@return mooncage.Secret
function mooncage.secret(value) end

---@param path string
---@return mooncage.Secret? secret, mooncage.Error? err
function mooncage.secret_file(path) end

---Only in a configuration file: a secret from the environment. Throws when it is not set.
---@param name string of the variable, not the value
---@return mooncage.Secret
function secret(name) end

---Only in a configuration file: a secret from a file. Throws when it cannot be read.
---@param path string
---@return mooncage.Secret
function secret_file(path) end

---What session opening falls back to, key by key.
---@param config mooncage.Config
---@param where (fun(err: mooncage.Error): mooncage.Error)? says where one of those keys came from
function mooncage.defaults(config, where) end

---A policy: a file that decides from what it is given, and can do nothing else. A name is one of
---policies/, anything with a slash or a dot is a path. Gives the function that takes the policy's
---options and returns the selector, guardrail or tenants function. Throws an error table when the file
---is not there, is bytecode, or is wrong. One that is untrusted runs in a process of its own, in a jail;
---what the function stands for is asked there, and cannot be called.
---@param name_or_path string
---@param options { untrusted: boolean? }?
---@return fun(options: table?): function
function mooncage.policy(name_or_path, options) end

---Which candidate mooncage.open would try first, and what is said of each. Waits; opens nothing. The
---candidate can be given as backend. Where none will do: nil, the error, and the explanation.
---@param config mooncage.Config?
---@return mooncage.Candidate? candidate, mooncage.Explanation|mooncage.Error explanation_or_err, mooncage.Explanation? explanation
function mooncage.select(config) end

---Judges candidates, and orders those that meet the requirements by price; the same price keeps the
---given order. Candidates without a price come last, first, or not at all (reject).
---@param candidates mooncage.CandidateFacts[] those of a selector, or tables with such fields
---@param requirements mooncage.Requirements?
---@param options { unpriced: "last"|"first"|"reject"|nil }? default: last
---@return mooncage.CandidateFacts[] order, mooncage.Explanation explanation
function mooncage.rank(candidates, requirements, options) end

---Tries each mechanism of this machine. Waits.
---@return { version: integer, ok: boolean, machine: table, checks: { name: string, state: "ok"|"no"|"off", ok: boolean, needed: boolean, detail: string, costs: string?, fix: string? }[], backends: table }? report, mooncage.Error? err
function mooncage.doctor() end

---Removes what engines that no longer live have left. Waits.
---@param options { dry_run: boolean }?
---@return { removed: { kind: string, name: string }[] }? report, mooncage.Error? err
function mooncage.reap(options) end

---The default sandbox: namespaces, seccomp, Landlock, cgroups; no daemon.
---@param options { rootfs: string?, path: string[]?, binds: table[]?, profile: "default"|"strict"|"packages"|"debug"|nil, working_directory: string?, environment: table?, user: string?, name: string? }?
---@return mooncage.Candidate
function mooncage.jail(options) end

---No isolation at all, for development; warns.
---@param options { working_directory: string?, environment: table?, inherit_env: string[]?, name: string? }?
---@return mooncage.Candidate
function mooncage.subprocess(options) end

---JSON as the command writes it: keys in order, bytes that are not UTF-8 as {"base64":"…"}, secrets
---redacted. An empty table is {}, array{} is [].
mooncage.json = {
  encode = function(value) end, ---@type fun(value: any): string
  decode = function(text) end, ---@type fun(text: string): any, mooncage.Error?
  array = function(list) end, ---@type fun(list: table): table
}

---@class mooncage.Task
local Task = {}

---Waits for its end.
---@return any ... what it returned; or nil, err
function Task:wait() end

---Each wait of the task ends with `canceled`, the one it is in and those to come; session:close()
---still works. One that has not begun never runs.
function Task:cancel() end

---@return "ready"|"running"|"waiting"|"done"|"failed"
function Task:status() end

---@class mooncage.Session
---@field id string
---@field backend string
---@field name string?
---@field labels table<string, string>
---@field tenant string?
---@field created_at number seconds since 1970
---@field enforcement table<string, string> mechanism -> what was in force when it was opened
---@field warnings string[]
---@field working_directory string
---@field project string? the directory whose view the workspace is
local Session = {}

---Runs a command to its end. Waits. A non-zero exit, a signal, a time-out, a missing program are
---results; canceling the task that waits kills the command's tree.
---@param cmd string|string[] shell text, or argv: a list without holes or other keys
---@param options mooncage.ExecOptions?
---@return mooncage.Result? result, mooncage.Error? err
function Session:exec(cmd, options) end

---Starts a command and does not wait for it. Its stdin is open unless `stdin` is given.
---@param cmd string|string[]
---@param options mooncage.ExecOptions?
---@return mooncage.Process? process, mooncage.Error? err
function Session:start(cmd, options) end

---Calls a tool: one of the config's `tools`, or shell, read_file, write_file, edit_file, list_files,
---search_files. What is wrong with the arguments comes back as an error, since a model may have written
---them. Waits.
---@param name string
---@param args table?
---@return any result, mooncage.Error? err
function Session:call_tool(name, args) end

---Waits. Paths are as seen from inside, relative to the working directory or absolute.
---@param path string
---@param options { max_bytes: integer }? default: 1 GiB
---@return string? bytes, mooncage.Error? err
function Session:read(path, options) end

---Waits.
---@param path string
---@param data string|{ from: string } bytes, or a file of the host
---@param mode string|integer|nil "644" by default
---@return true? ok, mooncage.Error? err
function Session:write(path, data, mode) end

---Waits.
---@param path string? default: the working directory
---@return mooncage.FileInfo[]? entries, mooncage.Error? err
function Session:list(path) end

---Waits. Does not follow a link.
---@param path string
---@return mooncage.FileInfo? info, mooncage.Error? err
function Session:stat(path) end

---Waits. Parents are made too; a directory that is there is fine.
---@param path string
---@param mode string|integer|nil "755" by default
---@return true? ok, mooncage.Error? err
function Session:mkdir(path, mode) end

---Waits. Recursive; never follows a link.
---@param path string
---@return true? ok, mooncage.Error? err
function Session:remove(path) end

---Waits.
---@param from string
---@param to string
---@return true? ok, mooncage.Error? err
function Session:move(from, to) end

---A file or tree of the host into the sandbox. Waits. A link in it is refused.
---@param from string
---@param to string
---@return true? ok, mooncage.Error? err
function Session:upload(from, to) end

---A file or tree of the sandbox to the host. Waits. A file takes the place of what is there, or of the file
---that a link there leads to; into a device, a fifo or our own output, such as /dev/stdout, it is written, and
---everything waits for who reads the fifo.
---@param from string
---@param to string
---@return true? ok, mooncage.Error? err
function Session:download(from, to) end

---The workspace as a plain tar stream. Waits. The function must not; false from it stops. A path is written as
---download does it. Sockets, fifos and
---devices are left out. What could not be restored again is an error: more than 2,000,000 entries, a path of
---4,096 bytes or 1,025 directories, holes larger than the disk, a file that cannot be read.
---@param to string|fun(chunk: string): boolean?
---@return true? ok, mooncage.Error? err
function Session:persist_workspace(to) end

---Waits. The function returns chunks, nil at the end, and must not wait. Plain tar only, of any writer, without
---sparse files. All of it is unpacked, over what is there, or nothing: what could leave the workspace, is no
---file, directory or link, comes twice as two kinds of file, is cut off or damaged is `archive_unsafe`, which
---names the entry. Owners, attributes, set-id and sticky bits are not restored. Until the end the disk has room
---for the old files and the new. Commands that run meanwhile may see a directory `.mooncage-unpack-…`.
---@param from string|fun(): string?
---@return true? ok, mooncage.Error? err
function Session:restore_workspace(from) end

---Saves the workspace in the store of the configuration, or in `store`; commands may run meanwhile. Without an
---id: snapshot.id of the configuration. Waits.
---@param id string?
---@param options { exclude: string[]?, store: mooncage.Store? }?
---@return mooncage.Snapshot? metadata, mooncage.Error? err
function Session:snapshot(id, options) end

---Verifies the snapshot, ends every command of the session, and replaces the workspace with it, all of it or
---nothing; until it is there the disk has to have room for the old and the new. Waits.
---@param id string?
---@param options { on_mismatch: "error"|"warn"|"ignore"|nil, store: mooncage.Store? }?
---@return mooncage.Snapshot? metadata, mooncage.Error? err
function Session:restore(id, options) end

---Another session of the same configuration, whose workspace is a copy of this one's as it is now. Close it like
---any other. It begins with no snapshot, and leaves none. Waits.
---@return mooncage.Session? fork, mooncage.Error? err
function Session:fork() end

---What the session was for has failed: with snapshot.save = "on_success" it is not saved when it closes.
function Session:unsuccessful() end

---Makes a port of the sandbox reachable from the host, for previews and tests: connections to the URL go
---on to this port inside, on its loopback, until the session is closed. Waits, but not for a server: until
---one listens inside, clients are reset. `host_port`: of 127.0.0.1; default: one that is free, taken:
---`conflict`. `path`: instead, a unix socket in a directory of mode 0700 of yours; a port of the host's
---loopback can be reached by all users of the host. `connections`: at once; 64, one more is reset. `idle_s`:
---a connection on which nothing moves for so long is cut; 60. A session on the host's network: `unsupported`.
---@param port integer
---@param options { host_port: integer?, path: string?, connections: integer?, idle_s: number? }?
---@return string? url, mooncage.Error? err "http://127.0.0.1:PORT" or "unix:PATH"
function Session:expose(port, options) end

---Waits.
---@return { pid: integer, ppid: integer, uid: integer, state: string, command: string, rss_bytes: integer }[]? processes, mooncage.Error? err
function Session:processes() end

---Another network policy: new connections are judged by it at once, and those that it does not allow are
---cut. Waits until what it listens on is there. A session that was opened with "none" is given its way out
---then; `terminate_tls` needs a session that was opened with such a rule. `unsupported` with the host's
---network. A tenant's session never reaches what it could not when it was opened: the policy lies within
---that one.
---@param policy "none"|"open"|mooncage.Network
---@return true? ok, mooncage.Error? err
function Session:set_network(policy) end

---The last thousand connections and refusals, either way, oldest first; also of a closed session. Waits.
---@return mooncage.NetworkEvent[]? events, mooncage.Error? err
function Session:network_log() end

---Live figures: memory_bytes, pids, cpu_s, disk_used_bytes … Waits.
---@return table? figures, mooncage.Error? err
function Session:stats() end

---What it has used so far, or has used when it is closed. Figures that nothing measures yet are absent.
---@return mooncage.Usage
function Session:usage() end

---The facts as they are now: the fields above, and `state`.
---@return table
function Session:info() end

---What mooncage.resume needs, without secrets; `unsupported` where no keeper holds the session.
---@return string? state, mooncage.Error? err
function Session:state() end

---What a session with `project` has changed. Waits.
---@return { changes: { op: "A"|"M"|"D", path: string, kind: string }[], diff: string }? report, mooncage.Error? err
function Session:diff() end

---Ends every process, then writes the changes to the project and nowhere else. Waits. A file that
---changed on the host meanwhile: `conflict`, and nothing is written. The session is closed then. One
---that was resumed ends with its keeper, and stays as it is when its changes were refused.
---@param options { git: boolean }? git: also under .git
---@return table? report, mooncage.Error? err
function Session:apply(options) end

---Kills what runs and takes the sandbox down. Waits until no process of it lives; idempotent; works in
---a canceled task too. A resumed session is only let go of.
---@return true? ok, mooncage.Error? err
function Session:close() end

---Ends the sandbox itself, also through a keeper. Waits.
---@return true? ok, mooncage.Error? err
function Session:stop() end

---@class mooncage.Process
---@field pid integer? as seen from inside, once it runs
local Process = {}

---Waits until the sandbox has taken the bytes. After the command closed its stdin or ended:
---`unavailable`.
---@param bytes string
---@return true? ok, mooncage.Error? err
function Process:write(bytes) end

---End of input, after what was written.
---@return true
function Process:close_stdin() end

---The next bytes; nil at the end. Waits. What is not read holds the command back once 256 KiB are
---queued; so a stream that was read once must be read to its end before wait().
---@param stream "stdout"|"stderr"|nil
---@return string? bytes, mooncage.Error? err
function Process:read(stream) end

---@param name string|integer "SIGTERM", "TERM" or 15
---@return true? ok, mooncage.Error? err
function Process:signal(name) end

---@param cols integer
---@param rows integer
---@return true? ok, mooncage.Error? err
function Process:resize(cols, rows) end

---Kills its whole tree; wait() then gives nil and `canceled`.
function Process:cancel() end

---Waits for the end. Streams that nobody has read are only captured then.
---@return mooncage.Result? result, mooncage.Error? err
function Process:wait() end

return mooncage
