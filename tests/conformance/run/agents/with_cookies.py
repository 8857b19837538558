import http.client
import http.cookiejar
import json
import ssl
import urllib.request

from wire import ask

jar = http.cookiejar.CookieJar()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
body = json.dumps({"name": "agent"}).encode()
request = urllib.request.Request(
    "https://shop.example/login", data=body, headers={"content-type": "application/json"}
)
opener.open(request, timeout=60).read()
page = json.load(opener.open("https://shop.example/page", timeout=60))
connection = http.client.HTTPSConnection("shop.example", context=ssl.create_default_context())
connection.request(
    "PUT", "/upload", body=b"\x00\xff" * 5000, headers={"content-type": "application/octet-stream"}
)
sent = json.loads(connection.getresponse().read())
print(page, sent, len(jar), ask(f"{page['user']} {sent['bytes']}"))
