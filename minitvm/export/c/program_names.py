"""Which names a program may have: its files, targets and namespace must not be those of tools and of C's library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...errors import InputError, report
from .names import RESERVED

# Files of the folder that are not named after the program; files may differ in more than the case of their letters.
_FILES = frozenset({"check", "example", "makefile", "gnumakefile"})
# Targets of make and CMake, and the library m, with which the program is linked.
_TARGETS = """
    all all_build clean depend edit_cache help install list_install_components m package package_source preinstall
    rebuild_cache run_tests test zero_check
"""
# Headers of C, POSIX and compilers: the folder is searched before those of the system.
_HEADERS = """
    alloca arm_neon assert complex ctype dirent dlfcn endian errno fcntl features fenv float immintrin inttypes iso646
    langinfo libintl limits locale malloc math memory nl_types poll pthread sched semaphore setjmp signal stdalign
    stdarg stdatomic stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings termios tgmath threads time
    uchar ucontext unistd utime values wchar wctype
"""
# Functions of <math.h> that exist for several types of floats, as in sin, sinf, sinl and sinf32x.
_OF_FLOATS = """
    acos acosh asin asinh atan atan2 atanh canonicalize cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1
    fabs fdim finite floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fmin fminimum
    fminimum_mag fminimum_mag_num fminimum_num fminmag fmod frexp fromfp fromfpx gamma getpayload hypot ilogb isinf
    isnan j0 j1 jn ldexp lgamma llogb llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
    nextdown nexttoward nextup pow remainder remquo rint round roundeven scalb scalbln scalbn setpayload setpayloadsig
    significand sin sincos sinh sqrt strfrom strto tan tanh tgamma totalorder totalordermag trunc ufromfp ufromfpx wcsto
    y0 y1 yn a?(cos|sin|tan)pi atan2pi exp(2|10)m1 log(2|10)p1 rsqrt compoundn pown powr rootn
    [df](add|div|fma|mul|sqrt|sub) f(32|64)x?(add|div|fma|mul|sqrt|sub)
"""
# What the headers that C++ programs include declare outside of namespaces, beyond the types in _t.
_DECLARED = r"""
    std posix abort abs abi alloca arc4random(_\w+)? v?asn?printf asctime a64l l64a aligned_alloc at_quick_exit atexit
    ato(f|i|l|ll) basename bcmp bcopy bsearch btowc bzero calloc canonicalize_file_name clearenv clearerr clock clog
    clone ctermid ctime cuserid daylight difftime div [dejlmn]rand48(_data)? dysize
    (duplocale|freelocale|newlocale|uselocale|setlocale|localeconv|lconv) environ exit explicit_bzero q?[efg]cvt
    lcong48 seed48 srand48 f(close|closeall|dopen|eof|error|flush|getc|getpos|getpos64|gets|getwc|getws|ileno)
    f(memopen|open|open64|opencookie|printf|putc|puts|putwc|putws|read|ree|reopen|reopen64|scanf|seek|seeko|seeko64)
    f(setpos|setpos64|tell|tello|tello64|wide|wprintf|write|wscanf|d_mask|d_set) ffs(l|ll)? f?(un|try)?lockfile
    getc(har|pu)? getdate(_err)? getdelim getenv getline getloadavg getopt getpt getsubopt getwc?(har)? getw gmtime
    grantpt index initstate is(w?(alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)|w?ctype)
    is(ascii|canonical|zero|eqsig|signaling) l?l?(abs|div) localtime malloc mblen mbtowc
    mb(rlen|rtowc|sinit|snrtowcs|srtowcs|stowcs) clock_(adjtime|getcpuclockid|getres|gettime|nanosleep|settime)
    timer_(create|delete|getoverrun|gettime|settime) obstack_v?printf
    mem(ccpy|chr|cmp|cpy|frob|mem|move|pcpy|rchr|set) mkdtemp mkos?temps?(64)? mks?temps?(64)? mktime nanosleep nothrow
    obstack on_exit open_w?memstream pclose perror popen p?select printf (pthread|posix|sched)_\w+
    program_invocation(_short)?_name ptsname put(c|char|env|s|w|wc|wchar) qsort quick_exit s?rand(om)?(_data)?
    rawmemchr realloc(array)? realpath remove rename(at|at2)? rewind rindex rpmatch secure_getenv setbuf(fer)? setenv
    setlinebuf setns setstate setvbuf sig(abbrev_np|descr_np|event|nal|ngam) s?n?scanf sn?printf stp(cpy|ncpy)
    str(casecmp|casestr|cat|chr|chrnul|cmp|coll|cpy|cspn|dup|error|errordesc|errorname|fry|ftime|lcat|lcpy|len|ncasecmp)
    str(ncat|ncmp|ncpy|ndup|nlen|pbrk|ptime|rchr|sep|signal|spn|str|tod|tof|tok|tol|told|toll|toq|toul|toull|touq)
    str(verscmp|xfrm) sw(printf|scanf) system tempnam time time(gm|local|r|spec|spec_get|spec_getres|val|x|zone)
    itimerspec tm tmp(file|file64|nam) to(ascii|lower|upper) tow(ctrans|lower|upper) tz(name|set) u_?(char|int|long)
    u_?short u(l|ll|max)?abs unget(c|wc) unlockpt unsetenv unshare valloc v?dprintf v(f|s|sn|sw|w|fw)?(printf|scanf)
    va_list wcp?n?cpy wcrtomb stdc_\w+ memset_explicit free(_aligned)?_sized
    wcs(casecmp|cat|chr|chrnul|cmp|coll|cpy|cspn|dup|ftime|len|n\w+|pbrk|rchr|rtombs|spn|str|tod|tof|tok|tol|told|toll)
    wcs(tombs|toq|toul|toull|touq|wcs|width|xfrm) wct(ob|omb|rans|ype) wcwidth wmem(chr|cmp|cpy|move|pcpy|set)
    w(printf|scanf) accept access bind close connect dup dup2 execv fork kill link listen open pause pipe read recv
    send sleep socket stat sync unlink usleep wait write
"""
_SUFFIX = r"(f|l|d|f(32|64|128)x?)?"
_TAKEN = re.compile(
    rf"\w+_t|({'|'.join(_OF_FLOATS.split())}){_SUFFIX}(_[lr])?|({'|'.join(_DECLARED.split())})(_l|_r|_unlocked|_np)?"
)


def program_name(text: Any) -> str:
    """Return the name of a program, which prefixes all its public names. Raises `InputError` if it may not have it."""
    why = "; ".join(reasons(text))
    if why:
        raise InputError(report(
            f"the name {text!r} of a C program", wanted="letters, digits and single _, a letter first, and no name "
            "that tools, C or C++ use", found=why, tries=["net"],
        ))  # fmt: skip
    return str(text)


def reasons(text: Any) -> Iterator[str]:
    """Yield why a program may not have a name."""
    if not isinstance(text, str) or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]{0,62}", text) or "__" in text:
        yield "no such identifier"
        return
    lower = text.lower()
    if text in RESERVED:
        yield f"{text} is a word of C or C++"
    if lower in _FILES:
        yield f"the folder has a file {text} of its own"
    if lower in _TARGETS.split():
        yield f"make or CMake has a target {text} of its own"
    if lower in _HEADERS.split():
        yield f"{text}.h is a header of the system"
    if text == "I" or (len(text) > 1 and text.upper() == text):
        yield "a name of capitals alone may be a macro"
    if _TAKEN.fullmatch(text):
        yield f"C or C++ declares or reserves {text}, so a namespace cannot have this name"
