"""Amazon's own library: signed requests, an upload in parts and in threads, presigned addresses, a
missing key, retries."""

import concurrent.futures
import urllib.request
from datetime import UTC, datetime

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

BUCKET = "reports"
s3 = boto3.client("s3")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
    keys = [item["Key"] for item in page["Contents"]]


def copy(key):
    body = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with open(key.replace("/", "-"), "wb") as file:
        file.write(body.upper())


with concurrent.futures.ThreadPoolExecutor(2) as threads:
    list(threads.map(copy, keys))
try:
    s3.head_object(Bucket=BUCKET, Key="absent")
except ClientError as error:
    print("absent", error.response["Error"]["Code"])
with open("large.bin", "wb") as file:
    file.write(b"0123456789abcdef" * 400_000)
parts = TransferConfig(multipart_threshold=1 << 20, multipart_chunksize=5 << 20, max_concurrency=2)
s3.upload_file("large.bin", BUCKET, "large.bin", Config=parts)
at = datetime.now(UTC).isoformat()
s3.put_object(Bucket=BUCKET, Key="made", Body=f"made at {at}".encode(), Metadata={"at": at})
url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": keys[0]})
with open("presigned.txt", "wb") as file:
    file.write(urllib.request.urlopen(url, timeout=20).read())
size = s3.head_object(Bucket=BUCKET, Key="large.bin")["ContentLength"]
report = f"{len(keys)} copied, {size} uploaded\n"
print(report, end="")
with open("report.txt", "w") as file:
    file.write(report)
