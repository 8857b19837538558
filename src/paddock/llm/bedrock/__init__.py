"""Amazon Bedrock's `converse`, and the event stream in which Bedrock answers."""
