"""Commands about files that come with stepmap."""
