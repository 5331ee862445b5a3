"""A real Chromium without a window, driven through its DevTools protocol over two pipes: no driver, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

MAX_LOAD_S = 60
# A page is at rest when nothing was asked for in this time.
QUIET_S = 0.7
WIDTH, HEIGHT = 1000, 1400


def find():
    """The Chromium to use, or None."""
    names = (os.environ.get("PORTOLAN_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Answer:
    """One request of a page, and what came of it."""

    def __init__(self, url):
        self.url, self.status, self.headers, self.failure = url, 0, {}, ""


class Chromium:
    """`rules`: what names lead where, as in --host-resolver-rules. Nothing else can be reached."""

    def __init__(self, program, folder, rules):
        folder.mkdir(parents=True, exist_ok=True)
        to_child, self.write_to = os.pipe()
        self.read_from, from_child = os.pipe()
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
            f"--user-data-dir={folder / 'profile'}", f"--host-resolver-rules={rules}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        log = open(folder / "chromium.log", "wb")
        # Chromium reads commands from descriptor 3 and answers on 4. Through copies: either may be 3 or 4 itself.
        script = f'exec 8<&{to_child} 9>&{from_child}; exec 3<&8 4>&9 8<&- 9>&-; exec "$0" "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, program, *options], pass_fds=(to_child, from_child), stdout=log, stderr=log
        )
        os.close(to_child)
        os.close(from_child)
        log.close()
        self.number, self.buffer = 0, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.command("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)

    def open(self, url):
        """(answers by request, PNG of the first screen, text of the page) of a page of its own, once it is at rest."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        ask = lambda method, **options: self.command(method, session, **options)
        answers, order = {}, []
        self.listener = lambda event: self.note(event, session, answers, order)
        ask("Network.enable")
        ask("Network.setCacheDisabled", cacheDisabled=True)
        ask("Page.enable")
        ask("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        self.loaded, self.last_event = False, time.monotonic()
        ask("Page.navigate", url=url)
        deadline = time.monotonic() + MAX_LOAD_S
        while time.monotonic() < deadline:
            if self.loaded and time.monotonic() - self.last_event > QUIET_S:
                break
            self.receive(0.1)
        said = ask("Runtime.evaluate", expression="document.body ? document.body.innerText : ''", returnByValue=True)
        image = base64.b64decode(ask("Page.captureScreenshot", format="png")["data"])
        self.listener = None
        self.command("Target.closeTarget", targetId=target)
        return [answers[number] for number in order], image, said["result"].get("value", "")

    def note(self, event, session, answers, order):
        if event.get("sessionId") != session:
            return
        method, about = event["method"], event["params"]
        if method == "Page.loadEventFired":
            self.loaded = True
        if not method.startswith("Network."):
            return
        self.last_event = time.monotonic()
        number = about.get("requestId")
        if method == "Network.requestWillBeSent":
            if number not in answers:
                order.append(number)
            answers[number] = Answer(about["request"]["url"])
        elif method == "Network.responseReceived" and number in answers:
            answer = about["response"]
            answers[number].status = answer["status"]
            answers[number].headers = {name.lower(): value for name, value in answer["headers"].items()}
        elif method == "Network.loadingFailed" and number in answers:
            answers[number].failure = about.get("errorText", "failed")

    listener = None

    def command(self, method, session=None, **options):
        self.number += 1
        message = {"id": self.number, "method": method, "params": options}
        if session:
            message["sessionId"] = session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + MAX_LOAD_S
        while time.monotonic() < deadline:
            reply = self.receive(1, wanted=message["id"])
            if reply is not None:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
        raise RuntimeError(f"{method}: Chromium does not answer")

    def receive(self, seconds, wanted=None):
        """The reply to `wanted`, if it is the next message; events go to the listener."""
        if b"\0" not in self.buffer:
            if not select.select([self.read_from], [], [], seconds)[0]:
                return None
            piece = os.read(self.read_from, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.buffer += piece
            if b"\0" not in self.buffer:
                return None
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            if self.listener:
                self.listener(message)
            return None
        return message if message.get("id") == wanted else None
