# SPDX-License-Identifier: MIT
"""Finds the mutations of a source: small changes of one place each, in C or Python.

The text is split into tokens, not parsed: a change that does not compile is found by the compiler and not counted.
Only bodies of functions and macros are changed; comments, strings and includes are not.
"""
import re

# Calls whose removal has no visible effect, or only a deadlock or a leak.
DULL_CALL = re.compile(r"lock|mutex|^(free|assert|va_start|va_end|printf|fprintf|perror|close|DPRINTF|trace_\w+|lockdep\w*)$|"
                       r"_(log|logf|trace|debug|warn|free|say|static_assert)$|^(log|trace|warn|say|debug|dev_|pr_|kfree)")
RESULTS = {"CUDA_SUCCESS": "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_INVALID_VALUE": "CUDA_ERROR_INVALID_HANDLE",
           "NVML_SUCCESS": "NVML_ERROR_UNKNOWN", "NVML_ERROR_INVALID_ARGUMENT": "NVML_ERROR_NOT_FOUND",
           "EINVAL": "EPERM"}
ERRNO = re.compile(r"E(AGAIN|BADF|BUSY|EXIST|FAULT|INTR|INVAL|IO|MFILE|NODEV|NOENT|NOMEM|NOSPC|NOTTY|NXIO|OVERFLOW|PERM|PIPE|"
                   r"PROTO|RANGE|SRCH|TIMEDOUT|TIME|2BIG|ACCES|CONNRESET|NOTCONN|OPNOTSUPP)$")
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
OPERATORS = {
    "boundary": "< and <=, > and >=", "equality": "== and !=", "logic": "&& and ||", "negate": "a condition turned round",
    "guard": "a condition that never holds", "bang": "! dropped", "flag": "a flag neither tested nor set",
    "number": "a number one larger or smaller", "limit": "a limit one larger or smaller", "statement": "a statement removed",
    "result": "another result or errno", "arguments": "two arguments swapped", "sum": "+ and -"}

C_TOKEN = re.compile(r"""
    (?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\\\n)
  | (?P<define>^[ \t]*\#[ \t]*define[ \t]+\w+(?:\([^)\n]*\))?)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d*\w*|\d+[uUlL]*)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:;,.(){}\[\]])
  | (?P<line>\n)""", re.S | re.M | re.X)
PYTHON_TOKEN = re.compile(r"""
    (?P<skip>\#[^\n]*|[rbfRBF]*\"\"\".*?\"\"\"|[rbfRBF]*"(?:\\.|[^"\\\n])*"|[rbfRBF]*'(?:\\.|[^'\\\n])*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>0x[0-9a-fA-F]+|\d+\.\d*|\d+)
  | (?P<op><<|>>|<=|>=|==|!=|->|\*\*|[-+*/%&|^]=|[-+*/%&|^~<>=:;,.(){}\[\]])
  | (?P<line>\n)""", re.S | re.X)


class Token:
    __slots__ = ("kind", "text", "at", "function", "depth", "partner")

    def __init__(self, kind, text, at):
        self.kind, self.text, self.at = kind, text, at
        self.function, self.depth, self.partner = None, 0, None

    @property
    def end(self):
        return self.at + len(self.text)


class Mutant:
    """One change: TEXT instead of what lies between START and END of a file."""

    def __init__(self, path, source, operator, function, start, end, text):
        self.path, self.operator, self.function = path, operator, function
        self.start, self.end, self.text = start, end, text
        first, last = source.rfind("\n", 0, start) + 1, source.find("\n", end)
        last = len(source) if last < 0 else last
        self.line = source.count("\n", 0, start) + 1
        self.before = source[first:last]
        self.after = source[first:start] + text + source[end:last]

    def applied(self, source):
        return source[:self.start] + self.text + source[self.end:]

    @property
    def key(self):
        """Names the mutant without its line number: survives changes elsewhere in the file."""
        return " | ".join([self.path, self.function, short(self.before), short(self.after)])


def short(text):
    return re.sub(r"\s+", " ", text).strip().replace("|", "¦")


def tokens_of(source, pattern):
    found, at = [], 0
    while at < len(source):
        m = pattern.match(source, at)
        if not m:
            at += 1
            continue
        if m.lastgroup != "skip":
            found.append(Token(m.lastgroup, m.group(), at))
        at = m.end()
    return found


def pair(tokens):
    """Partners of brackets, and how deep each token stands in braces."""
    open_, depth = [], 0
    for t in tokens:
        if t.kind != "op":
            t.depth = depth
            continue
        if t.text == "}":
            depth = max(0, depth - 1)
        t.depth = depth
        if t.text in "([{":
            open_.append(t)
            depth += t.text == "{"
        elif t.text in ")]}" and open_:
            t.partner = open_.pop()
            t.partner.partner = t


def c_tokens(source):
    """Tokens of bodies, each with the function or macro that it belongs to."""
    every = tokens_of(source, C_TOKEN)
    kept, macro = [], None
    for t in every:
        if t.kind == "define":
            macro = re.match(r"\s*#\s*define\s+(\w+)", t.text).group(1)
        elif t.kind == "line":
            macro = None
        elif t.kind != "directive":
            t.function = macro
            kept.append(t)
    code = [t for t in kept if not t.function]
    pair(code)
    pair([t for t in kept if t.function])
    function, end = None, -1
    for i, t in enumerate(code):
        if t.text == "{" and t.depth == 0:
            function, end = None, t.partner.at if t.partner else len(source)
            if i and code[i - 1].text == ")" and code[i - 1].partner:
                before = position(code, code[i - 1].partner, 0) - 1
                function = code[before].text if before >= 0 and code[before].kind == "name" else None
        elif t.at < end:
            t.function = function
    return [t for t in kept if t.function]


def python_tokens(source):
    spans = [(m.start(), m.group(2), len(m.group(1))) for m in re.finditer(r"^( *)def (\w+)", source, re.M)]
    kept = [t for t in tokens_of(source, PYTHON_TOKEN) if t.kind != "line"]
    pair(kept)
    for t in kept:
        inside = [s for s in spans if s[0] < t.at]
        t.function = inside[-1][1] if inside else "-"
    return kept


def numbers(t):
    digits = t.text.rstrip("uUlL")
    if "." in t.text:
        return
    value, suffix = int(digits, 0) if digits == "0" or not digits.startswith("0") or "x" in digits.lower() else int(digits, 8), \
        t.text[len(digits):]
    form = hex if digits.lower().startswith("0x") else str
    yield form(value + 1) + suffix
    if value > 1:
        yield form(value - 1) + suffix


def operands(tokens, i):
    """True if token i stands between two operands (and is no sign, address or dereference)."""
    if not 0 < i < len(tokens) - 1:
        return False
    before, after = tokens[i - 1], tokens[i + 1]
    return (before.kind in ("name", "number") and before.text not in ("return", "case", "sizeof") or before.text in ")]") and \
        (after.kind in ("name", "number") or after.text == "(")


def size_of_array(tokens, i):
    """True for the number of a declaration like `char name[64]`: a larger one shows nowhere."""
    return i > 2 and tokens[i - 1].text == "[" and tokens[i - 2].kind == "name" and \
        (tokens[i - 3].kind == "name" or tokens[i - 3].text in ("*", ","))


def statement(tokens, i):
    """The end of the expression statement that begins with token i, or None."""
    t = tokens[i]
    if t.kind != "name" or (i and tokens[i - 1].text not in (";", "{", "}", ")", "else")):
        return None
    if i and tokens[i - 1].text == ")":  # after the condition of if, for, while only
        opened = tokens[i - 1].partner
        j = position(tokens, opened, 0) if opened else 0
        if not j or tokens[j - 1].text not in ("if", "for", "while"):
            return None
    if t.text in ("return", "if", "for", "while", "do", "goto", "break", "continue", "case", "switch", "default", "else", "struct",
                  "static", "const", "union", "enum", "typedef"):
        return None
    j, effect = i + 1, False
    if j == len(tokens) or tokens[j].kind == "name":  # a declaration
        return None
    if tokens[j].text == "(" and tokens[j].partner:
        if DULL_CALL.search(t.text):
            return None
        effect = True
    while j < len(tokens) and tokens[j].text != ";":
        if tokens[j].text in ("{", "}", ":") or tokens[j].kind == "name" and tokens[j - 1].kind == "name":
            return None
        if tokens[j].text == "*" and j == i + 1:
            return None  # a declaration of a pointer
        effect = effect or tokens[j].text in ("=", "+=", "-=", "|=", "&=", "^=", "++", "--")
        if tokens[j].text == "(" and tokens[j].partner:
            j = position(tokens, tokens[j].partner, j)
        j += 1
    return tokens[j] if effect and j < len(tokens) else None


def position(tokens, token, start):
    low, high = start, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if tokens[middle].at < token.at:
            low = middle + 1
        else:
            high = middle
    return low


def swapped(source, tokens, i):
    """Pairs of neighbouring simple arguments of the call whose bracket is token i."""
    t = tokens[i]
    if t.text != "(" or not t.partner or not i or tokens[i - 1].kind != "name" or tokens[i - 1].text in ("if", "while", "for",
                                                                                                        "switch", "return", "sizeof"):
        return
    starts, j, last = [t.end], i + 1, position(tokens, t.partner, i)
    while j < last:
        if tokens[j].text in "([{" and tokens[j].partner:
            j = position(tokens, tokens[j].partner, j)
        elif tokens[j].text == ",":
            starts.append(tokens[j].end)
        j += 1
    ends = [s - 1 for s in starts[1:]] + [t.partner.at]
    texts = [source[s:e].strip() for s, e in zip(starts, ends)]
    for n in range(len(texts) - 1):
        simple = re.compile(r"&?[A-Za-z_][\w.>-]*$")
        if texts[n] != texts[n + 1] and simple.match(texts[n]) and simple.match(texts[n + 1]) and \
                "\n" not in source[starts[n]:ends[n + 1]]:
            lead = source[starts[n]:ends[n]][:len(source[starts[n]:ends[n]]) - len(source[starts[n]:ends[n]].lstrip())]
            yield starts[n], ends[n + 1], lead + texts[n + 1] + ", " + texts[n]


def changes(source, tokens, python):
    """(operator, function, start, end, text) of every mutant."""
    for i, t in enumerate(tokens):
        f, after = t.function, tokens[i + 1] if i + 1 < len(tokens) else None
        if t.text in SWAPS and t.kind == "op":
            if t.text in "<>" and not operands(tokens, i):
                continue
            kind = "logic" if t.text in ("&&", "||") else "equality" if t.text in ("==", "!=") else "boundary"
            yield kind, f, t.at, t.end, SWAPS[t.text]
            if after and after.kind == "name" and kind == "boundary" and re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", after.text):
                for sign in "+-":
                    yield "limit", f, after.at, after.end, "(%s %s 1)" % (after.text, sign)
        elif python and t.text in ("and", "or"):
            yield "logic", f, t.at, t.end, "or" if t.text == "and" else "and"
        elif python and t.text == "not" and i and tokens[i - 1].text not in ("is",) and after.text != "in":
            yield "bang", f, t.at, t.end, ""
        elif python and t.text in ("if", "elif") and i and source[:t.at].rstrip(" ")[-1:] == "\n":
            line = source.find("\n", t.end)
            colon = source.rfind(":", t.end, line)
            if colon > 0 and not source[colon + 1:line].strip():
                yield "negate", f, t.end, colon, " not (%s)" % source[t.end:colon].strip()
                yield "guard", f, t.end, colon, " False and (%s)" % source[t.end:colon].strip()
        elif t.text == "if" and after and after.text == "(" and after.partner:
            inner = source[after.end:after.partner.at]
            if "\n" not in inner:
                yield "negate", f, after.end, after.partner.at, "!(%s)" % inner
                yield "guard", f, after.end, after.partner.at, "0 && (%s)" % inner
        elif t.text == "!" and after and (after.kind == "name" or after.text == "("):
            yield "bang", f, t.at, t.end, ""
        elif t.text in ("&", "|") and after and re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", after.text) and operands(tokens, i):
            yield "flag", f, after.at, after.end, "0"
        elif t.text in ("+", "-") and operands(tokens, i):
            yield "sum", f, t.at, t.end, "-" if t.text == "+" else "+"
        elif t.kind == "number" and not size_of_array(tokens, i):
            for text in numbers(t):
                yield "number", f, t.at, t.end, text
        elif t.kind == "name" and (t.text.startswith(("CUDA_ERROR_", "NVML_ERROR_")) or t.text in RESULTS or
                                   ERRNO.match(t.text)) and tokens[i - 1].text != "case":
            other = RESULTS.get(t.text) or ("CUDA_ERROR_INVALID_VALUE" if t.text.startswith("CUDA") else
                                            "NVML_ERROR_INVALID_ARGUMENT" if t.text.startswith("NVML") else "EINVAL")
            yield "result", f, t.at, t.end, other
        if not python:
            end = statement(tokens, i)
            if end and "\n" not in source[t.at:end.end]:
                yield "statement", f, t.at, end.end, ";"
            for start, stop, text in swapped(source, tokens, i):
                yield "arguments", f, start, stop, text


def mutants(path, source):
    """All mutants of a file, in its order."""
    python = path.endswith(".py")
    tokens = python_tokens(source) if python else c_tokens(source)
    return [Mutant(path, source, *change) for change in changes(source, tokens, python)]
