/* shell_wrappers.c: the table of programs that run others, are given code, or set variables, and of the
 * options by which they do. What the marks mean stands in shell_wrap.h. In order of the names: it is
 * searched by halves. */
#include "shell_wrap.h"
#include <string.h>

#define RSCRIPT_OPTIONS "e,eval# E# c# g^ version. help. vanilla"
#define ACK_OPTIONS "pager^"
#define APT_OPTIONS                                                                                \
  "o,option^ c,config-file^ t,target-release= a,host-architecture= P,build-profiles="
#define AUTOSSH_OPTIONS "o= F^ I^ E^ B= b= c= D= e= i= J= L= l= m= O= p= Q= R= S^ W= w= P= X= s="
#define SCP_OPTIONS "o= F^ S^ D@ B= b# c= i= J= l= P= R= s= X="
#define AWK_OPTIONS                                                                                \
  "F,field-separator= v,assign= f,file= e,source= E,exec= i,include^ l,load^ b "                   \
  "c C g h,help. k M n N O P r s S t V,version. W^ D^ d^ o^ p^ L?"
#define BIND_OPTIONS "C^ F^ x^ f^ A= G= W^ P= S= X= o="
#define BSDTAR_OPTIONS                                                                             \
  "checkpoint-action^ checkpoint? to-command! I,use-compress-program@ "                            \
  "rsh-command@ rmt-command@ F,info-script,new-volume-script! index-file^ f= C= "                  \
  "b= g= H= K= L= N= T= V= X="
#define BUILTIN_OPTIONS "help version"
#define BUN_OPTIONS                                                                                \
  "e,eval# p,print# pe# r,require^ import^ loader^ experimental-loader^ "                          \
  "env-file^ i,interactive& C,conditions= c,check h,help. v,version. inspect? "                    \
  "inspect-brk? max-old-space-size? no-warnings test trace-warnings "                              \
  "enable-source-maps input-type="
#define BUSYBOX_OPTIONS "list. list-full. help. install~"
#define CSH_OPTIONS "c# s& command# Command#"
#define ENABLE_OPTIONS "f^ p^"
#define EXPECT_OPTIONS "c# f= d D= i& n N v. b="
#define FD_OPTIONS "x,exec^ X,exec-batch^ t= e= E= d= c= j= S= o="
#define GMAKE_OPTIONS                                                                              \
  "f,file,makefile= eval# C,directory= I,include-dir^ o= W= j? l? O? B b d e i "                   \
  "k n p q r R s S t v w E^"
#define GSED_OPTIONS                                                                               \
  "e,expression= f,file= n,quiet,silent E,r,regexp-extended i,in-place? "                          \
  "l,line-length= s,separate u,unbuffered z,null-data posix debug sandbox "                        \
  "follow-symlinks b,binary help. version."
#define LESS_OPTIONS                                                                               \
  "o^ O^ k^ lesskey-file^ lesskey-src^ lesskey-content^ log-file^ LOG-FILE^ p= "                   \
  "P= t= T= x= y= z= j= h= b= D="
#define LTRACE_OPTIONS                                                                             \
  "c C d f F i k n q r t T v V. w x y z Z a= b= e= I= s= S= u= p= P= O= X= o^ "                    \
  "E^ U^"
#define LUA_OPTIONS "e# l^ i& v E W j^ b^ O?"
#define MAPFILE_OPTIONS "C^ c= d= n= O= s= u="
#define NC_OPTIONS "e,exec@ c,sh-exec! lua-exec^ p= s= w= i= X= x="
#define PIP_OPTIONS "editor@ python^ log^ r= c= e= d= t= i= f= w= C= src= root= prefix="
#define PYPY_OPTIONS "c# m. W= X= b B d E h. i& I O OO P q s S u v V. x help. version."

static const shell_row rows[] = {
    {".", SHELL_OPAQUE, "", 0, 0},
    {"R", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"Rscript", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"[", SHELL_TEST, "", 0, 0},
    {"ack", SHELL_TOOL, ACK_OPTIONS, 0, 0},
    {"acpid", SHELL_OPAQUE, "", 0, 0},
    {"ag", SHELL_TOOL, ACK_OPTIONS, 0, 0},
    {"alias", SHELL_OPAQUE, "", 0, 0},
    {"aoss", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"apt", SHELL_TOOL, APT_OPTIONS, 0, 0},
    {"apt-get", SHELL_TOOL, APT_OPTIONS, 0, 0},
    {"aptitude", SHELL_TOOL, APT_OPTIONS, 0, 0},
    {"ar", SHELL_TOOL, "plugin^", 0, 0},
    {"ash", SHELL_SHELL, "", 0, 0},
    {"at", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"autossh", SHELL_SSH, AUTOSSH_OPTIONS, 0, 0},
    {"awk", SHELL_AWK, AWK_OPTIONS, 0, 0},
    {"bash", SHELL_SHELL, "", 0, 0},
    {"batch", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"bind", SHELL_TOOL, BIND_OPTIONS, 0, 0},
    {"bootchartd", SHELL_OPAQUE, "", 0, 0},
    {"bpython", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"bsdtar", SHELL_TAR, BSDTAR_OPTIONS, 0, 0},
    {"builtin", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"bun", SHELL_INTERPRETER, BUN_OPTIONS, 0, 0},
    {"bunx", SHELL_OPAQUE, "", 0, 0},
    {"busybox", SHELL_RUN, BUSYBOX_OPTIONS, 0, SHELL_THROUGH},
    {"bwrap", SHELL_OPAQUE, "", 0, 0},
    {"c++", SHELL_COMPILER, "", 0, 0},
    {"c89", SHELL_COMPILER, "", 0, 0},
    {"c89-gcc", SHELL_COMPILER, "", 0, 0},
    {"c99", SHELL_COMPILER, "", 0, 0},
    {"c99-gcc", SHELL_COMPILER, "", 0, 0},
    {"capsh", SHELL_OPAQUE, "", 0, 0},
    {"catchsegv", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"cc", SHELL_COMPILER, "", 0, 0},
    {"ccache", SHELL_OPAQUE, "", 0, 0},
    {"cgexec", SHELL_OPAQUE, "", 0, 0},
    {"choom", SHELL_RUN, "n,adjust= p,pid. help. version.", 0, SHELL_THROUGH},
    {"chpst", SHELL_OPAQUE, "", 0, 0},
    {"chronic", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"chroot", SHELL_RUN, "groups= userspec= skip-chdir", 1, SHELL_OR_SHELL},
    {"chrt", SHELL_RUN,
     "a,all-tasks b,batch d,deadline f,fifo i,idle o,other r,rr R,reset-on-fork "
     "m,max. p,pid. v,verbose T,sched-runtime= P,sched-period= D,sched-deadline=",
     1, SHELL_THROUGH},
    {"clang", SHELL_COMPILER, "", 0, 0},
    {"clang++", SHELL_COMPILER, "", 0, 0},
    {"clang-cpp", SHELL_COMPILER, "", 0, 0},
    {"clisp", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"cmake", SHELL_TOOL, "D= E^ U= G= T= A= S= B= C= W? N L? P=", 0, 0},
    {"command", SHELL_RUN, "p v. V.", 0, SHELL_THROUGH},
    {"compgen", SHELL_TOOL, BIND_OPTIONS, 0, 0},
    {"complete", SHELL_TOOL, BIND_OPTIONS, 0, 0},
    {"coresched", SHELL_OPAQUE, "", 0, 0},
    {"cpio", SHELL_TOOL, "rsh-command^ F= H= I= O= M= C= E= D= R=", 0, 0},
    {"cpp", SHELL_COMPILER, "", 0, 0},
    {"cpulimit", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"crond", SHELL_OPAQUE, "", 0, 0},
    {"crontab", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"csh", SHELL_INTERPRETER, CSH_OPTIONS, 0, 0},
    {"ctest", SHELL_TOOL,
     "build-and-test^ S^ D^ build-makeprogram^ test-command^ build-exe-dir= R= E= L= j= C= T= M= "
     "O=",
     0, 0},
    {"cttyhack", SHELL_RUN, "", 0, SHELL_THROUGH | SHELL_OR_SHELL},
    {"curl", SHELL_TOOL,
     "K,config^ o,output^ O,remote-name~ remote-name-all~ D,dump-header^ "
     "c,cookie-jar^ trace^ trace-ascii^ stderr^ output-dir^ libcurl^ "
     "T,upload-file^ egd-file^ engine^ etag-save^ hsts^ alt-svc^ E= A= b= d= e= F= "
     "H= m= Q= r= t= u= U= w= X= x= y= Y= z= C= P=",
     0, 0},
    {"daemonize", SHELL_OPAQUE, "", 0, 0},
    {"dash", SHELL_SHELL, "", 0, 0},
    {"dbus-run-session", SHELL_OPAQUE, "", 0, 0},
    {"dc", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"dd", SHELL_DD, "", 0, 0},
    {"debconf", SHELL_OPAQUE, "", 0, 0},
    {"declare", SHELL_SET, "", 0, SHELL_THROUGH},
    {"deno", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"diff3", SHELL_TOOL, "diff-program@ L= e", 0, 0},
    {"direnv", SHELL_OPAQUE, "", 0, 0},
    {"distcc", SHELL_OPAQUE, "", 0, 0},
    {"doas", SHELL_RUN, "n L. u= s& C^", 0, 0},
    {"dpkg", SHELL_TOOL,
     "pre-invoke! post-invoke! status-logger! root^ instdir^ admindir= path-exclude= path-include= "
     "D=",
     0, 0},
    {"dumb-init", SHELL_OPAQUE, "", 0, 0},
    {"eatmydata", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"ed", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"editor", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"emacs", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"enable", SHELL_TOOL, ENABLE_OPTIONS, 0, 0},
    {"entr", SHELL_OPAQUE, "", 0, 0},
    {"env", SHELL_ENV,
     "i,ignore-environment 0,null u,unset= C,chdir= S,split-string% v,debug "
     "a,argv0= block-signal? default-signal? ignore-signal? list-signal-handling "
     "help. version.",
     0, SHELL_THROUGH},
    {"envdir", SHELL_OPAQUE, "", 0, 0},
    {"envuidgid", SHELL_OPAQUE, "", 0, 0},
    {"eval", SHELL_JOIN, "", 0, SHELL_THROUGH},
    {"ex", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"exec", SHELL_RUN, "c l a=", 0, SHELL_THROUGH},
    {"expect", SHELL_INTERPRETER, EXPECT_OPTIONS, 0, 0},
    {"export", SHELL_SET, "", 0, SHELL_THROUGH},
    {"fakechroot", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"fakeroot", SHELL_RUN, "u,unknown-is-real l,lib^ faked^ s^ i^ b,fd-base=", 0, 0},
    {"faketime", SHELL_OPAQUE, "", 0, 0},
    {"fc", SHELL_OPAQUE, "", 0, 0},
    {"fd", SHELL_TOOL, FD_OPTIONS, 0, 0},
    {"fdfind", SHELL_TOOL, FD_OPTIONS, 0, 0},
    {"find", SHELL_FIND, "", 0, 0},
    {"firejail", SHELL_OPAQUE, "", 0, 0},
    {"fish", SHELL_INTERPRETER, CSH_OPTIONS, 0, 0},
    {"flatpak-spawn", SHELL_OPAQUE, "", 0, 0},
    {"flock", SHELL_RUN,
     "s,shared x,e,exclusive n,nb,nonblock w,wait,timeout= u,unlock o,close "
     "F,no-fork E,conflict-exit-code= verbose c,command!",
     1, SHELL_THROUGH | SHELL_LATE},
    {"g++", SHELL_COMPILER, "", 0, 0},
    {"gawk", SHELL_AWK, AWK_OPTIONS, 0, 0},
    {"gcc", SHELL_COMPILER, "", 0, 0},
    {"gdb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"getopts", SHELL_GETOPTS, "", 0, 0},
    {"gfind", SHELL_FIND, "", 0, 0},
    {"ghci", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"git", SHELL_GIT,
     "C= P,no-pager p,paginate bare no-replace-objects literal-pathspecs "
     "glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks "
     "no-lazy-fetch version. help. v. h. html-path. man-path. info-path. "
     "exec-path^ git-dir^ work-tree^ namespace= config-env^ c=",
     0, 0},
    {"gmake", SHELL_MAKE, GMAKE_OPTIONS, 0, 0},
    {"gnuplot", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"gosu", SHELL_RUN, "", 1, 0},
    {"gsed", SHELL_SED, GSED_OPTIONS, 0, 0},
    {"gtar", SHELL_TAR, BSDTAR_OPTIONS, 0, 0},
    {"guile", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"hash", SHELL_TOOL, ENABLE_OPTIONS, 0, 0},
    {"history", SHELL_OPAQUE, "", 0, 0},
    {"hush", SHELL_SHELL, "", 0, 0},
    {"hyperfine", SHELL_OPAQUE, "", 0, 0},
    {"i386", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"ifne", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"ifplugd", SHELL_OPAQUE, "", 0, 0},
    {"inetd", SHELL_OPAQUE, "", 0, 0},
    {"inotifyd", SHELL_OPAQUE, "", 0, 0},
    {"install", SHELL_TOOL, "strip-program@ s,strip b C,compare c d,directory D g= m= o= p S= t= v",
     0, 0},
    {"ionice", SHELL_RUN, "c,class= n,classdata= t,ignore p,pid= P,pgid= u,uid= help. version.", 0,
     SHELL_THROUGH},
    {"ipython", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"ipython3", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"irb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"jdb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"jobs", SHELL_TOOL, "x^", 0, 0},
    {"jshell", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"julia", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"ksh", SHELL_INTERPRETER, CSH_OPTIONS, 0, SHELL_PLUS},
    {"ld.so", SHELL_RUN,
     "list. verify. inhibit-cache list-diagnostics. list-tunables. help. version. "
     "argv0= library-path^ preload^ audit^ inhibit-rpath= glibc-hwcaps-prepend= "
     "glibc-hwcaps-mask=",
     0, SHELL_THROUGH},
    {"less", SHELL_TOOL, LESS_OPTIONS, 0, SHELL_PLUS},
    {"let", SHELL_OPAQUE, "", 0, 0},
    {"linux32", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"linux64", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"lldb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"local", SHELL_SET, "", 0, SHELL_THROUGH},
    {"logrotate", SHELL_OPAQUE, "", 0, 0},
    {"ltrace", SHELL_RUN, LTRACE_OPTIONS, 0, SHELL_THROUGH},
    {"lua", SHELL_INTERPRETER, LUA_OPTIONS, 0, 0},
    {"luajit", SHELL_INTERPRETER, LUA_OPTIONS, 0, 0},
    {"m4", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"make", SHELL_MAKE, GMAKE_OPTIONS, 0, 0},
    {"man", SHELL_TOOL, "P,pager@ H,html^ B^ C,config-file^ L= m= M= S= s= e= E= p= r=", 0, 0},
    {"mapfile", SHELL_TOOL, MAPFILE_OPTIONS, 0, 0},
    {"mariadb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"mawk", SHELL_AWK, AWK_OPTIONS, 0, 0},
    {"mdev", SHELL_OPAQUE, "", 0, 0},
    {"mksh", SHELL_INTERPRETER, CSH_OPTIONS, 0, SHELL_PLUS},
    {"more", SHELL_TOOL, LESS_OPTIONS, 0, SHELL_PLUS},
    {"most", SHELL_TOOL, LESS_OPTIONS, 0, SHELL_PLUS},
    {"mysql", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"nawk", SHELL_AWK, AWK_OPTIONS, 0, 0},
    {"nc", SHELL_TOOL, NC_OPTIONS, 0, 0},
    {"nc.openbsd", SHELL_TOOL, NC_OPTIONS, 0, 0},
    {"nc.traditional", SHELL_TOOL, NC_OPTIONS, 0, 0},
    {"ncat", SHELL_TOOL, NC_OPTIONS, 0, 0},
    {"netcat", SHELL_TOOL, NC_OPTIONS, 0, 0},
    {"newgrp", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"nice", SHELL_RUN, "n,adjustment= 0 1 2 3 4 5 6 7 8 9 help. version.", 0, SHELL_THROUGH},
    {"nm", SHELL_TOOL, "plugin^", 0, 0},
    {"nocache", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"node", SHELL_INTERPRETER, BUN_OPTIONS, 0, 0},
    {"nodejs", SHELL_INTERPRETER, BUN_OPTIONS, 0, 0},
    {"nohup", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"npm", SHELL_TOOL,
     "c,call! script-shell^ node-options^ init-module^ editor^ viewer^ shell^ git^ w= C=", 0, 0},
    {"npx", SHELL_OPAQUE, "", 0, 0},
    {"nsenter", SHELL_RUN,
     "t,target= m,mount? u,uts? i,ipc? n,net? p,pid? U,user? C,cgroup? T,time? "
     "a,all r,root? w,wd? W,wdns= S,setuid? G,setgid? F,no-fork "
     "preserve-credentials",
     0, SHELL_OR_SHELL},
    {"numactl", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"nvim", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"objdump", SHELL_TOOL, "plugin^", 0, 0},
    {"ocaml", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"octave", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"openvt", SHELL_OPAQUE, "", 0, 0},
    {"original-awk", SHELL_AWK, AWK_OPTIONS, 0, 0},
    {"osascript", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"pager", SHELL_TOOL, LESS_OPTIONS, 0, SHELL_PLUS},
    {"parallel", SHELL_OPAQUE, "", 0, 0},
    {"pdb", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"pdb3", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"perf", SHELL_OPAQUE, "", 0, 0},
    {"perl", SHELL_INTERPRETER,
     "e# E# M^ m^ I= x? i? 0/ F? l/ d& D? C? a g n p s S t T u U v. w W X c f h. V?", 0, 0},
    {"php", SHELL_INTERPRETER, "r# R# B# E# F^ f= a& d^ z^ S= t= c^ n l w s m. i. v. h.", 0, 0},
    {"pip", SHELL_TOOL, PIP_OPTIONS, 0, 0},
    {"pip3", SHELL_TOOL, PIP_OPTIONS, 0, 0},
    {"pipesz", SHELL_OPAQUE, "", 0, 0},
    {"pkexec", SHELL_RUN, "disable-internal-agent u,user=", 0, SHELL_OR_SHELL},
    {"popmaildir", SHELL_OPAQUE, "", 0, 0},
    {"printf", SHELL_PRINTF, "", 0, 0},
    {"prlimit", SHELL_RUN,
     "p,pid= o,output= noheadings raw verbose c,core? d,data? e,nice? f,fsize? "
     "i,sigpending? l,memlock? m,rss? n,nofile? q,msgqueue? r,rtprio? s,stack? "
     "t,cpu? u,nproc? v,as? x,locks? y,rttime?",
     0, SHELL_THROUGH},
    {"proot", SHELL_OPAQUE, "", 0, 0},
    {"prove", SHELL_TOOL,
     "e,exec@ harness^ source^ formatter^ rc^ P^ M^ I= a,archive^ state= statefile= j,jobs= ext= "
     "rules= c f o l b s D r p q Q m v T t W w",
     0, 0},
    {"proxychains", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"proxychains4", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"psql", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"ptpython", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"pwsh", SHELL_INTERPRETER, CSH_OPTIONS, 0, 0},
    {"pypy", SHELL_INTERPRETER, PYPY_OPTIONS, 0, SHELL_LAST},
    {"python", SHELL_INTERPRETER, PYPY_OPTIONS, 0, SHELL_LAST},
    {"python2", SHELL_INTERPRETER, PYPY_OPTIONS, 0, SHELL_LAST},
    {"python3", SHELL_INTERPRETER, PYPY_OPTIONS, 0, SHELL_LAST},
    {"ranlib", SHELL_TOOL, "plugin^", 0, 0},
    {"rbash", SHELL_SHELL, "", 0, 0},
    {"read", SHELL_NAMES, "r s e p= d= n= N= t= u= i= a=", 0, 0},
    {"readarray", SHELL_TOOL, MAPFILE_OPTIONS, 0, 0},
    {"readonly", SHELL_SET, "", 0, SHELL_THROUGH},
    {"red", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"rg", SHELL_TOOL, "pre^ hostname-bin^ search-zip e= f= g= t= T= A= B= C= m= M= j= r= E= d=", 0,
     0},
    {"rlwrap", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"rr", SHELL_OPAQUE, "", 0, 0},
    {"rsync", SHELL_TOOL, "e,rsh@ rsync-path^ f= T= M^ B=", 0, 0},
    {"ruby", SHELL_INTERPRETER,
     "e# r^ I= C= x? i? 0/ F? E= K^ T/ a c d l n p s S v w W/ h. version. help. "
     "jit yjit",
     0, 0},
    {"run-init", SHELL_OPAQUE, "", 0, 0},
    {"run-parts", SHELL_OPAQUE, "", 0, 0},
    {"runcon", SHELL_OPAQUE, "", 0, 0},
    {"runghc", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"runsv", SHELL_OPAQUE, "", 0, 0},
    {"runsvdir", SHELL_OPAQUE, "", 0, 0},
    {"runuser", SHELL_OPAQUE, "", 0, 0},
    {"rview", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"rvim", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"s6-setuidgid", SHELL_OPAQUE, "", 0, 0},
    {"sbcl", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"sccache", SHELL_OPAQUE, "", 0, 0},
    {"scp", SHELL_SSH, SCP_OPTIONS, 0, 0},
    {"screen", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"script", SHELL_TEXT,
     "a,append B,log-io= c,command! E,echo= e,return f,flush force I,log-in= "
     "O,log-out= T,log-timing= t,timing? m,logging-format= o,output-limit= q,quiet "
     "h,help. V,version.",
     1, 0},
    {"sdiff", SHELL_TOOL, "diff-program@ o,output^ w= I= F=", 0, 0},
    {"sed", SHELL_SED, GSED_OPTIONS, 0, 0},
    {"sensible-editor", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"sensible-pager", SHELL_TOOL, LESS_OPTIONS, 0, SHELL_PLUS},
    {"setarch", SHELL_RUN, "help. version.", 1, SHELL_THROUGH},
    {"setlock", SHELL_OPAQUE, "", 0, 0},
    {"setpriv", SHELL_RUN,
     "d,dump. nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= "
     "rgid= egid= reuid= regid= clear-groups keep-groups init-groups groups= "
     "securebits= pdeathsig= reset-env",
     0, 0},
    {"setsid", SHELL_RUN, "c,ctty f,fork w,wait help. version.", 0, SHELL_THROUGH},
    {"setuidgid", SHELL_OPAQUE, "", 0, 0},
    {"sftp", SHELL_SSH, SCP_OPTIONS, 0, 0},
    {"sg", SHELL_OPAQUE, "", 0, 0},
    {"sh", SHELL_SHELL, "", 0, 0},
    {"shopt", SHELL_OPAQUE, "", 0, 0},
    {"slsh", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"socat", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"softlimit", SHELL_OPAQUE, "", 0, 0},
    {"sort", SHELL_TOOL, "compress-program@ o,output^ k= t= S= T= b d f g h i M n r R u V c m s z",
     0, 0},
    {"source", SHELL_OPAQUE, "", 0, 0},
    {"split", SHELL_TOOL, "filter! n= l= b= C= a=", 0, 0},
    {"sqlite3", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"ssh", SHELL_SSH, AUTOSSH_OPTIONS, 0, 0},
    {"ssh-add", SHELL_TOOL, "s^ S^ e= t= d D k K l L x X c v q T= h=", 0, 0},
    {"ssh-agent", SHELL_OPAQUE, "", 0, 0},
    {"ssh-keygen", SHELL_TOOL,
     "D^ w^ M= b= f= t= N= C= P= O= I= V= n= s= z= R= F= Z= a= E= m= Y= r= G= T= W= K= A= y e i l "
     "p q v B c g h H k L o Q u U x X",
     0, 0},
    {"start-stop-daemon", SHELL_OPAQUE, "", 0, 0},
    {"stdbuf", SHELL_RUN, "i,input= o,output= e,error= help. version.", 0, SHELL_THROUGH},
    {"strace", SHELL_RUN, LTRACE_OPTIONS, 0, SHELL_THROUGH},
    {"su", SHELL_TEXT,
     "c,command! session-command! s,shell^ l,login m,p,preserve-environment "
     "g,group= G,supp-group= P,pty T,no-pty f,fast w,whitelist-environment= "
     "h,help. V,version.",
     1, 0},
    {"su-exec", SHELL_RUN, "", 1, 0},
    {"sudo", SHELL_ENV,
     "A,askpass B,bell b,background C,close-from= D,chdir= E,preserve-env? e,edit~ "
     "g,group= H,set-home h,host= i,login& K,remove-timestamp. k,reset-timestamp "
     "l,list. N,no-update n,non-interactive P,preserve-groups p,prompt= R,chroot^ "
     "r,role= S,stdin s,shell& T,command-timeout= t,type= U,other-user= u,user= "
     "v,validate. V,version.",
     0, 0},
    {"swipl", SHELL_INTERPRETER, RSCRIPT_OPTIONS, 0, 0},
    {"switch_root", SHELL_OPAQUE, "", 0, 0},
    {"systemd-inhibit", SHELL_OPAQUE, "", 0, 0},
    {"systemd-run", SHELL_OPAQUE, "", 0, 0},
    {"tar", SHELL_TAR, BSDTAR_OPTIONS, 0, 0},
    {"taskset", SHELL_RUN, "a,all-tasks c,cpu-list p,pid.", 1, SHELL_THROUGH},
    {"tclsh", SHELL_INTERPRETER, EXPECT_OPTIONS, 0, 0},
    {"tcpdump", SHELL_TOOL, "z^ w^ i= r= F= c= C= s= B= E= G= j= M= m= Q= T= V= W= y= Z=", 0, 0},
    {"tcpsvd", SHELL_OPAQUE, "", 0, 0},
    {"tcsh", SHELL_INTERPRETER, CSH_OPTIONS, 0, 0},
    {"telnetd", SHELL_OPAQUE, "", 0, 0},
    {"test", SHELL_TEST, "", 0, 0},
    {"time", SHELL_RUN, "p,portability v,verbose q,quiet a,append o,output^ f,format= V.", 0,
     SHELL_THROUGH},
    {"timeout", SHELL_RUN,
     "foreground f preserve-status p v,verbose k,kill-after= s,signal= help. "
     "version.",
     1, SHELL_THROUGH},
    {"tini", SHELL_OPAQUE, "", 0, 0},
    {"tmux", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"torify", SHELL_OPAQUE, "", 0, 0},
    {"torsocks", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"toybox", SHELL_RUN, BUSYBOX_OPTIONS, 0, SHELL_THROUGH},
    {"trap", SHELL_TRAP, "l. p.", 0, SHELL_THROUGH},
    {"trickle", SHELL_OPAQUE, "", 0, 0},
    {"ts-node", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"tsx", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"typeset", SHELL_SET, "", 0, SHELL_THROUGH},
    {"uclampset", SHELL_OPAQUE, "", 0, 0},
    {"udhcpc", SHELL_OPAQUE, "", 0, 0},
    {"udhcpc6", SHELL_OPAQUE, "", 0, 0},
    {"udpsvd", SHELL_OPAQUE, "", 0, 0},
    {"uevent", SHELL_OPAQUE, "", 0, 0},
    {"umask", SHELL_TOOL, "", 0, 0},
    {"unalias", SHELL_TOOL, "", 0, 0},
    {"uname26", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"unbuffer", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"unset", SHELL_NAMES, "f v n", 0, 0},
    {"unshare", SHELL_RUN,
     "i,ipc? m,mount? n,net? p,pid? u,uts? U,user? C,cgroup? T,time? f,fork "
     "mount-proc? r,map-root-user c,map-current-user map-auto map-user= map-group= "
     "map-users= map-groups= propagation= R,root= w,wd= S,setuid= G,setgid= "
     "kill-child? keep-caps setgroups= monotonic= boottime=",
     0, SHELL_OR_SHELL},
    {"unzip", SHELL_TOOL, "", 0, 0},
    {"valgrind", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"vi", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"view", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vigr", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vim", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vim.basic", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vim.gtk3", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vim.nox", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vim.tiny", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vimdiff", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"vipw", SHELL_OPAQUE, "", 0, SHELL_CODE},
    {"wait", SHELL_TOOL, "p^ n f", 0, 0},
    {"watch", SHELL_JOIN,
     "b,beep c,color d,differences? e,errexit g,chgexit n,interval= p,precise "
     "q,equexit= r,no-rerun t,no-title w,no-wrap x,exec* h,help. v,version.",
     0, SHELL_THROUGH},
    {"watchexec", SHELL_OPAQUE, "", 0, 0},
    {"wget", SHELL_TOOL,
     "O,output-document^ o,output-file^ a,append-output^ e,execute^ config^ "
     "use-askpass^ post-file^ body-file^ P,directory-prefix^ i,input-file^ "
     "warc-file^ save-cookies^ t= T= w= Q= U= l= A= R= D= I= X= B= base=",
     0, 0},
    {"wish", SHELL_INTERPRETER, EXPECT_OPTIONS, 0, 0},
    {"x-terminal-emulator", SHELL_OPAQUE, "", 0, 0},
    {"x86_64", SHELL_RUN, BUILTIN_OPTIONS, 0, SHELL_THROUGH},
    {"xargs", SHELL_XARGS,
     "0,null a,arg-file= d,delimiter= E= e,eof? I= i,replace? L= l,max-lines? "
     "n,max-args= o,open-tty P,max-procs= p,interactive process-slot-var^ "
     "r,no-run-if-empty s,max-chars= t,verbose x,exit show-limits help. version.",
     0, SHELL_THROUGH},
    {"xterm", SHELL_OPAQUE, "", 0, 0},
    {"xvfb-run", SHELL_OPAQUE, "", 0, 0},
    {"yash", SHELL_INTERPRETER, CSH_OPTIONS, 0, SHELL_PLUS},
    {"zcip", SHELL_OPAQUE, "", 0, 0},
    {"zip", SHELL_TOOL, "T,TT~ unzip-command@", 0, 0},
    {"zsh", SHELL_INTERPRETER, CSH_OPTIONS, 0, SHELL_PLUS},
};

const shell_row *mcg__shell_rows(size_t *count)
{
  *count = sizeof rows / sizeof *rows;
  return rows;
}

static const shell_row *find(const char *name, size_t len)
{
  size_t low = 0, high = sizeof rows / sizeof *rows;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strncmp(name, rows[middle].name, len);
    if (order == 0 && rows[middle].name[len]) order = -1;
    if (order == 0) return &rows[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

static bool begins(const char *name, size_t len, const char *with)
{
  return len >= strlen(with) && memcmp(name, with, strlen(with)) == 0;
}

/* python3.11: the last name, without its version. */
static const shell_row *find_versioned(const char *name, size_t len)
{
  const shell_row *row = find(name, len);
  while (!row && len > 1 && strchr("0123456789.-", name[len - 1])) row = find(name, --len);
  return row;
}

/* x86_64-linux-gnu-gcc-12, perl5.36-x86_64-linux-gnu: the system that it is for stands before or after. */
static const shell_row *find_of_system(const char *name, size_t len)
{
  static const char system[] = "-linux-";
  const char *at = memmem(name, len, system, strlen(system)), *end = name + len;
  if (!at) return NULL;
  const char *dash = memchr(at + strlen(system), '-', (size_t)(end - at) - strlen(system));
  if (dash) return find_versioned(dash + 1, (size_t)(end - dash) - 1);
  dash = memrchr(name, '-', (size_t)(at - name));
  return dash ? find_versioned(name, (size_t)(dash - name)) : NULL;
}

const shell_row *mcg__shell_row(const char *program, size_t len)
{
  const char *slash = len ? memrchr(program, '/', len) : NULL;
  const char *name = slash ? slash + 1 : program;
  len -= (size_t)(name - program);
  if (!len) return NULL;
  if (begins(name, len, "ld-linux") || begins(name, len, "ld-musl") || begins(name, len, "ld-2"))
    return find("ld.so", 5);
  const shell_row *row = find_versioned(name, len);
  return row ? row : find_of_system(name, len);
}
